//! Tuples, arrays, `Option` and `Result`.

use crate::{Decode, DecodeError, Encode, Schema, Sink, Source, TypeName, Types, fixed, tag};

macro_rules! tuple {
    ($($part:ident $index:tt),+) => {
        impl<$($part: Encode),+> Encode for ($($part,)+) {
            const FIXED: Option<usize> = fixed::sum(&[$($part::FIXED),+]);

            #[inline]
            fn size(&self) -> usize {
                0 $(+ self.$index.size())+
            }

            #[inline]
            fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
                $(self.$index.encode(to);)+
            }
        }

        impl<$($part: Decode),+> Decode for ($($part,)+) {
            const LEAST: usize = 0 $(+ $part::LEAST)+;

            #[inline]
            fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
                Ok(($($part::decode(from)?,)+))
            }
        }

        impl<$($part: Schema),+> Schema for ($($part,)+) {
            type Itself = Self;

            fn schema(types: &mut Types) -> TypeName {
                TypeName::tuple(&[$($part::schema(types)),+])
            }
        }
    };
}

tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);

impl<T: Encode, const N: usize> Encode for [T; N] {
    const FIXED: Option<usize> = fixed::times(T::FIXED, N);

    #[inline]
    fn size(&self) -> usize {
        match Self::FIXED {
            Some(size) => size,
            None => self.iter().map(T::size).sum(),
        }
    }

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        T::encode_all(self, to);
    }
}

impl<T: Decode, const N: usize> Decode for [T; N] {
    const LEAST: usize = T::LEAST * N;

    #[inline]
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        let mut place = None;
        T::decode_array(&mut place, from)?;
        Ok(place.expect("an array that was decoded"))
    }

    #[inline(always)]
    fn decode_into<S: Source + ?Sized>(place: &mut Option<Self>, from: &mut S) -> Result<(), DecodeError> {
        T::decode_array(place, from)
    }
}

impl<T: Schema, const N: usize> Schema for [T; N] {
    type Itself = Self;

    fn schema(types: &mut Types) -> TypeName {
        TypeName::array(&T::schema(types), N)
    }
}

impl<T: Encode> Encode for Option<T> {
    const FIXED: Option<usize> = None;

    #[inline]
    fn size(&self) -> usize {
        1 + self.as_ref().map_or(0, T::size)
    }

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        tag::encode_bit(self.is_some(), to);
        if let Some(value) = self {
            value.encode(to);
        }
    }
}

impl<T: Decode> Decode for Option<T> {
    const LEAST: usize = 1;

    #[inline]
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        if tag::decode_bit("Option", from)? { T::decode(from).map(Some) } else { Ok(None) }
    }
}

impl<T: Schema> Schema for Option<T> {
    type Itself = Self;

    fn schema(types: &mut Types) -> TypeName {
        TypeName::generic("Option", &[T::schema(types)])
    }
}

impl<T: Encode, E: Encode> Encode for Result<T, E> {
    const FIXED: Option<usize> = fixed::sum(&[Some(1), fixed::same(&[T::FIXED, E::FIXED])]);
    const EITHER: [Option<usize>; 2] = [T::FIXED, E::FIXED];

    #[inline]
    fn size(&self) -> usize {
        1 + match self {
            Ok(value) => value.size(),
            Err(error) => error.size(),
        }
    }

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        tag::encode_bit(self.is_err(), to);
        match self {
            Ok(value) => value.encode(to),
            Err(error) => error.encode(to),
        }
    }
}

impl<T: Decode, E: Decode> Decode for Result<T, E> {
    const LEAST: usize = 1;

    #[inline]
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        Ok(if tag::decode_bit("Result", from)? { Err(E::decode(from)?) } else { Ok(T::decode(from)?) })
    }
}

impl<T: Schema, E: Schema> Schema for Result<T, E> {
    type Itself = Self;

    fn schema(types: &mut Types) -> TypeName {
        TypeName::generic("Result", &[T::schema(types), E::schema(types)])
    }
}
