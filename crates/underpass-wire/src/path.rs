//! Paths and strings of the system: bytes as Linux has them, which need not be UTF-8.

use crate::{Decode, DecodeError, Encode, Schema, Sink, Source, TypeName, Types};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

macro_rules! bytes {
    ($($type:ty: $($bytes:ident).+;)*) => {$(
        impl Encode for $type {
            const FIXED: Option<usize> = None;

            #[inline]
            fn size(&self) -> usize {
                self.$($bytes()).+.size()
            }

            #[inline]
            fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
                self.$($bytes()).+.encode(to);
            }
        }
    )*};
}

bytes! {
    OsStr: as_bytes;
    OsString: as_bytes;
    Path: as_os_str.as_bytes;
    PathBuf: as_os_str.as_bytes;
}

impl Decode for OsString {
    const LEAST: usize = 1;

    #[inline]
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        Vec::decode(from).map(Self::from_vec)
    }
}

impl Decode for PathBuf {
    const LEAST: usize = 1;

    #[inline]
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        OsString::decode(from).map(Self::from)
    }
}

impl Schema for OsString {
    type Itself = Self;

    fn schema(_: &mut Types) -> TypeName {
        TypeName::plain("OsString")
    }
}

impl Schema for PathBuf {
    type Itself = Self;

    fn schema(_: &mut Types) -> TypeName {
        TypeName::plain("PathBuf")
    }
}
