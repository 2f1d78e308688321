//! Numbers, `bool`, `char` and `()`.

use crate::{Decode, DecodeError, Encode, Schema, Sink, Source, TypeName, Types, bulk, tag};
use std::num::NonZero;

/// Schema of a type that needs no definition.
macro_rules! plain {
    ($($type:ty),*) => {$(
        impl Schema for $type {
            type Itself = Self;

            fn schema(_: &mut Types) -> TypeName {
                TypeName::plain(stringify!($type))
            }
        }
    )*};
}

plain!(u8, i8, u16, i16, u32, i32, u64, i64, u128, i128, usize, isize, f32, f64, bool, char, ());

macro_rules! fixed {
    ($bytes:expr) => {
        const FIXED: Option<usize> = Some($bytes);

        #[inline]
        fn size(&self) -> usize {
            $bytes
        }
    };
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl Encode for $type {
            fixed!(size_of::<Self>());

            #[inline]
            fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
                to.put(&self.to_le_bytes());
            }

            #[inline]
            fn encode_all<S: Sink + ?Sized>(items: &[Self], to: &mut S) {
                bulk::encode(items, Self::to_le_bytes, to);
            }
        }

        impl Decode for $type {
            const LEAST: usize = size_of::<Self>();

            #[inline]
            fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
                let mut bytes = [0; size_of::<Self>()];
                from.take(&mut bytes)?;
                Ok(Self::from_le_bytes(bytes))
            }

            #[inline]
            fn decode_all<S: Source + ?Sized>(count: usize, from: &mut S) -> Result<Vec<Self>, DecodeError> {
                bulk::check(count, size_of::<Self>(), from)?;
                let mut items = vec![Self::default(); count];
                bulk::decode(&mut items, Self::from_le_bytes, from)?;
                Ok(items)
            }

            #[inline]
            fn decode_array<const N: usize, S: Source + ?Sized>(
                place: &mut Option<[Self; N]>,
                from: &mut S,
            ) -> Result<(), DecodeError> {
                bulk::decode(place.insert([Self::default(); N]), Self::from_le_bytes, from)
            }
        }
    )*};
}

number!(i8, u16, i16, u32, i32, u64, i64, u128, i128, f32, f64);

impl Encode for u8 {
    fixed!(1);

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        to.put(&[*self]);
    }

    #[inline]
    fn encode_all<S: Sink + ?Sized>(items: &[Self], to: &mut S) {
        to.put(items);
    }
}

impl Decode for u8 {
    const LEAST: usize = 1;

    #[inline]
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        let mut byte = [0];
        from.take(&mut byte)?;
        Ok(byte[0])
    }

    #[inline]
    fn decode_all<S: Source + ?Sized>(count: usize, from: &mut S) -> Result<Vec<Self>, DecodeError> {
        from.take_vec(count)
    }

    #[inline]
    fn decode_array<const N: usize, S: Source + ?Sized>(
        place: &mut Option<[Self; N]>,
        from: &mut S,
    ) -> Result<(), DecodeError> {
        from.take(place.insert([0; N]))
    }
}

/// Sizes in memory travel as 64 bits, whatever the width on either side.
macro_rules! size {
    ($($type:ident as $wide:ident),*) => {$(
        impl Encode for $type {
            fixed!(8);

            #[inline]
            fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
                (*self as $wide).encode(to);
            }

            #[inline]
            fn encode_all<S: Sink + ?Sized>(items: &[Self], to: &mut S) {
                bulk::encode(items, |n| (n as $wide).to_le_bytes(), to);
            }
        }

        impl Decode for $type {
            const LEAST: usize = 8;

            #[inline]
            fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
                Self::try_from($wide::decode(from)?).map_err(|_| DecodeError::TooLong)
            }
        }
    )*};
}

size!(usize as u64, isize as i64);

macro_rules! non_zero {
    ($($type:ident),*) => {$(
        impl Encode for NonZero<$type> {
            fixed!($type::LEAST);

            #[inline]
            fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
                self.get().encode(to);
            }
        }

        impl Decode for NonZero<$type> {
            const LEAST: usize = $type::LEAST;

            #[inline]
            fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
                const OF: &str = concat!("NonZero<", stringify!($type), ">");
                Self::new($type::decode(from)?).ok_or(DecodeError::BadValue { of: OF })
            }
        }

        plain!(NonZero<$type>);
    )*};
}

non_zero!(u8, i8, u16, i16, u32, i32, u64, i64, u128, i128, usize, isize);

impl Encode for bool {
    fixed!(1);

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        tag::encode_bit(*self, to);
    }
}

impl Decode for bool {
    const LEAST: usize = 1;

    #[inline]
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        tag::decode_bit("bool", from)
    }
}

impl Encode for char {
    fixed!(4);

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        u32::from(*self).encode(to);
    }
}

impl Decode for char {
    const LEAST: usize = 4;

    #[inline]
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        let n = u32::decode(from)?;
        Self::from_u32(n).ok_or(DecodeError::BadChar(n))
    }
}

impl Encode for () {
    fixed!(0);

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, _: &mut S) {}
}

impl Decode for () {
    #[inline]
    fn decode<S: Source + ?Sized>(_: &mut S) -> Result<Self, DecodeError> {
        Ok(())
    }
}
