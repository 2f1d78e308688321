//! References and owning pointers. The value behind them travels.

use crate::{Decode, DecodeError, Encode, Schema, Sink, Source, TypeName, Types, deeper};
use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

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

/// Types that own a value behind a pointer.
macro_rules! owns {
    ($($pointer:ident),*) => {$(
        impl<T: Encode + ?Sized> Encode for $pointer<T> {
            // Not `T::FIXED`: a recursive enum would have to know its own size to know it.
            points_to!(None);
        }

        impl<T: Decode> Decode for $pointer<T> {
            const LEAST: usize = T::LEAST;

            #[inline]
            fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
                deeper(|| T::decode(from)).map(Self::new)
            }
        }

        impl Decode for $pointer<str> {
            const LEAST: usize = String::LEAST;

            #[inline]
            fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
                String::decode(from).map(Self::from)
            }
        }

        impl<T: Decode> Decode for $pointer<[T]> {
            const LEAST: usize = Vec::<T>::LEAST;

            #[inline]
            fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
                Vec::decode(from).map(Self::from)
            }
        }

        impl<T: Schema> Schema for $pointer<T> {
            type Itself = Self;

            fn schema(types: &mut Types) -> TypeName {
                T::schema(types)
            }
        }

        impl Schema for $pointer<str> {
            type Itself = Self;

            fn schema(types: &mut Types) -> TypeName {
                String::schema(types)
            }
        }

        impl<T: Schema> Schema for $pointer<[T]> {
            type Itself = Self;

            fn schema(types: &mut Types) -> TypeName {
                Vec::<T>::schema(types)
            }
        }
    )*};
}

// If several hold an `Arc`, each of them travels as a value of its own.
owns!(Box, Arc);

impl<T: Encode + ToOwned + ?Sized> Encode for Cow<'_, T> {
    points_to!(T::FIXED);
}

/// What arrives is owned.
impl<T: ToOwned<Owned: Decode> + ?Sized> Decode for Cow<'_, T> {
    const LEAST: usize = T::Owned::LEAST;

    #[inline]
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        T::Owned::decode(from).map(Self::Owned)
    }
}

impl<T: Encode + ToOwned<Owned: Schema> + ?Sized> Schema for Cow<'_, T> {
    type Itself = Self;

    fn schema(types: &mut Types) -> TypeName {
        T::Owned::schema(types)
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
    type Itself = Self;

    fn schema(_: &mut Types) -> TypeName {
        TypeName::plain("()")
    }
}
