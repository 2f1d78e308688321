//! Strings, slices, `Vec` and `VecDeque`.

use crate::{Decode, DecodeError, Encode, Schema, Sink, Source, TypeName, Types, length};
use std::collections::VecDeque;

impl Encode for str {
    const FIXED: Option<usize> = None;

    #[inline]
    fn size(&self) -> usize {
        self.as_bytes().size()
    }

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        self.as_bytes().encode(to);
    }
}

impl Encode for String {
    const FIXED: Option<usize> = None;

    #[inline]
    fn size(&self) -> usize {
        self.as_str().size()
    }

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        self.as_str().encode(to);
    }
}

impl Decode for String {
    const LEAST: usize = 1;

    #[inline]
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        Self::from_utf8(Vec::decode(from)?).map_err(|_| DecodeError::BadUtf8)
    }
}

impl Schema for String {
    type Itself = Self;

    fn schema(_: &mut Types) -> TypeName {
        TypeName::plain("String")
    }
}

impl<T: Encode> Encode for [T] {
    const FIXED: Option<usize> = None;

    #[inline]
    fn size(&self) -> usize {
        length::size(self.len())
            + match T::FIXED {
                Some(size) => size * self.len(),
                None => self.iter().map(T::size).sum(),
            }
    }

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        length::encode(self.len(), to);
        T::encode_all(self, to);
    }
}

impl<T: Encode> Encode for Vec<T> {
    const FIXED: Option<usize> = None;

    #[inline]
    fn size(&self) -> usize {
        self.as_slice().size()
    }

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        self.as_slice().encode(to);
    }
}

impl<T: Decode> Decode for Vec<T> {
    const LEAST: usize = 1;

    #[inline]
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        let len = length::decode::<T, S>(from)?;
        T::decode_all(len, from)
    }
}

impl<T: Schema> Schema for Vec<T> {
    type Itself = Self;

    fn schema(types: &mut Types) -> TypeName {
        TypeName::generic("Vec", &[T::schema(types)])
    }
}

impl<T: Encode> Encode for VecDeque<T> {
    const FIXED: Option<usize> = None;

    #[inline]
    fn size(&self) -> usize {
        length::size(self.len())
            + match T::FIXED {
                Some(size) => size * self.len(),
                None => self.iter().map(T::size).sum(),
            }
    }

    #[inline]
    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        length::encode(self.len(), to);
        let (front, back) = self.as_slices();
        T::encode_all(front, to);
        T::encode_all(back, to);
    }
}

impl<T: Decode> Decode for VecDeque<T> {
    const LEAST: usize = 1;

    #[inline]
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        Vec::decode(from).map(Self::from)
    }
}

impl<T: Schema> Schema for VecDeque<T> {
    type Itself = Self;

    fn schema(types: &mut Types) -> TypeName {
        Vec::<T>::schema(types)
    }
}
