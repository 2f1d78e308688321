//! Addresses of the Internet.

use crate::{Decode, DecodeError, Encode, Schema, Sink, Source, TypeName, Types, tag};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Types that are made of parts of a fixed size.
macro_rules! parts {
    ($($type:ident: $part:ty, |$value:ident| $parts:expr, |$made:ident| $make:expr;)*) => {$(
        impl Encode for $type {
            const FIXED: Option<usize> = <$part>::FIXED;

            #[inline]
            fn size(&self) -> usize {
                <$part>::LEAST
            }

            #[inline]
            fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
                let $value = self;
                $parts.encode(to);
            }
        }

        impl Decode for $type {
            const LEAST: usize = <$part>::LEAST;

            #[inline]
            fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
                let $made = <$part>::decode(from)?;
                Ok($make)
            }
        }

        impl Schema for $type {
            type Itself = Self;

            fn schema(_: &mut Types) -> TypeName {
                TypeName::plain(stringify!($type))
            }
        }
    )*};
}

parts! {
    Ipv4Addr: [u8; 4], |address| address.octets(), |octets| Self::from(octets);
    Ipv6Addr: [u8; 16], |address| address.octets(), |octets| Self::from(octets);
    SocketAddrV4: (Ipv4Addr, u16), |address| (*address.ip(), address.port()), |parts| Self::new(parts.0, parts.1);
    SocketAddrV6: (Ipv6Addr, u16, u32, u32),
        |address| (*address.ip(), address.port(), address.flowinfo(), address.scope_id()),
        |parts| Self::new(parts.0, parts.1, parts.2, parts.3);
}

/// Types that are of version 4 or 6.
macro_rules! versions {
    ($($type:ident: $v4:ident, $v6:ident;)*) => {$(
        impl Encode for $type {
            const FIXED: Option<usize> = None;

            #[inline]
            fn size(&self) -> usize {
                1 + match self {
                    Self::V4(address) => address.size(),
                    Self::V6(address) => address.size(),
                }
            }

            #[inline]
            fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
                tag::encode_bit(self.is_ipv6(), to);
                match self {
                    Self::V4(address) => address.encode(to),
                    Self::V6(address) => address.encode(to),
                }
            }
        }

        impl Decode for $type {
            const LEAST: usize = 1 + $v4::LEAST;

            #[inline]
            fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
                Ok(match tag::decode_bit(stringify!($type), from)? {
                    false => Self::V4($v4::decode(from)?),
                    true => Self::V6($v6::decode(from)?),
                })
            }
        }

        impl Schema for $type {
            type Itself = Self;

            fn schema(_: &mut Types) -> TypeName {
                TypeName::plain(stringify!($type))
            }
        }
    )*};
}

versions! {
    IpAddr: Ipv4Addr, Ipv6Addr;
    SocketAddr: SocketAddrV4, SocketAddrV6;
}
