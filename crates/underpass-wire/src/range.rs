//! Ranges: their two bounds. A range that ends before it begins is empty, and is not an error.

use crate::{Decode, DecodeError, Encode, Schema, Sink, Source, TypeName, Types, fixed};
use std::ops::{Range, RangeInclusive};

macro_rules! range {
    ($($type:ident: |$range:ident| $start:expr, $end:expr, |$from:ident, $to:ident| $make:expr;)*) => {$(
        impl<T: Encode> Encode for $type<T> {
            const FIXED: Option<usize> = fixed::times(T::FIXED, 2);

            #[inline]
            fn size(&self) -> usize {
                let $range = self;
                $start.size() + $end.size()
            }

            #[inline]
            fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
                let $range = self;
                $start.encode(to);
                $end.encode(to);
            }
        }

        impl<T: Decode> Decode for $type<T> {
            const LEAST: usize = 2 * T::LEAST;

            #[inline]
            fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
                let ($from, $to) = (T::decode(from)?, T::decode(from)?);
                Ok($make)
            }
        }

        impl<T: Schema> Schema for $type<T> {
            type Itself = Self;

            fn schema(types: &mut Types) -> TypeName {
                TypeName::generic(stringify!($type), &[T::schema(types)])
            }
        }
    )*};
}

range! {
    Range: |range| range.start, range.end, |start, end| start..end;
    // Whether the range was iterated to its end does not travel. Its bounds are unspecified then
    // anyway.
    RangeInclusive: |range| range.start(), range.end(), |start, end| start..=end;
}
