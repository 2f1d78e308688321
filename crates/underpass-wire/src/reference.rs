//! References and boxes: what they point to travels.

use crate::{Decode, DecodeError, Encode, Schema, Sink, Source, TypeName, Types, deeper};
use std::marker::PhantomData;

macro_rules! points_to {
    ($fixed:expr) => {
        const FIXED: Option<usize> = $fixed;

        #[inline]
        fn size(&self) -> usize {
            (**self).size()
        }

        #[inline]
        fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
            (**self).encode(to);
        }
    };
}

impl<T: Encode + ?Sized> Encode for &T {
    points_to!(T::FIXED);
}

impl<T: Encode + ?Sized> Encode for Box<T> {
    // Not `T::FIXED`: a recursive enum would have to know its own size to know it.
    points_to!(None);
}

impl<T: Decode> Decode for Box<T> {
    const LEAST: usize = T::LEAST;

    #[inline]
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        deeper(|| T::decode(from)).map(Self::new)
    }
}

impl Decode for Box<str> {
    const LEAST: usize = String::LEAST;

    #[inline]
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        String::decode(from).map(String::into_boxed_str)
    }
}

impl<T: Decode> Decode for Box<[T]> {
    const LEAST: usize = Vec::<T>::LEAST;

    #[inline]
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        Vec::decode(from).map(Vec::into_boxed_slice)
    }
}

impl<T: Schema> Schema for Box<T> {
    fn schema(types: &mut Types) -> TypeName {
        T::schema(types)
    }
}

impl Schema for Box<str> {
    fn schema(types: &mut Types) -> TypeName {
        String::schema(types)
    }
}

impl<T: Schema> Schema for Box<[T]> {
    fn schema(types: &mut Types) -> TypeName {
        Vec::<T>::schema(types)
    }
}

impl<T: ?Sized> Encode for PhantomData<T> {
    const FIXED: Option<usize> = Some(0);

    #[inline]
    fn size(&self) -> usize {
        0
    }

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, _: &mut S) {}
}

impl<T: ?Sized> Decode for PhantomData<T> {
    #[inline]
    fn decode<S: Source + ?Sized>(_: &mut S) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}

impl<T: ?Sized> Schema for PhantomData<T> {
    fn schema(_: &mut Types) -> TypeName {
        TypeName::plain("()")
    }
}
