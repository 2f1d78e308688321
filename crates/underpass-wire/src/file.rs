//! Open files. No bytes stand for them: they travel beside the bytes.

use crate::{Decode, DecodeError, Encode, Schema, Sink, Source, TypeName, Types};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

/// A type that is only an open file.
macro_rules! file {
    ($($type:ident),*) => {$(
        impl Encode for $type {
            const FIXED: Option<usize> = Some(0);

            #[inline]
            fn size(&self) -> usize {
                0
            }

            #[inline]
            fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
                to.put_file(self.as_fd());
            }
        }

        impl Decode for $type {
            #[inline]
            fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
                from.take_file().map(Self::from)
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

file!(OwnedFd, File);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SliceSink, from_bytes, to_bytes};
    use std::os::fd::BorrowedFd;

    /// Keeps a duplicate of each file.
    #[derive(Default)]
    struct OutOfBand {
        bytes: Vec<u8>,
        files: Vec<OwnedFd>,
    }

    impl Sink for OutOfBand {
        fn put(&mut self, bytes: &[u8]) {
            self.bytes.put(bytes);
        }

        fn put_file(&mut self, file: BorrowedFd<'_>) {
            self.files.push(file.try_clone_to_owned().unwrap());
        }
    }

    impl Source for OutOfBand {
        fn remaining(&self) -> usize {
            self.bytes.len()
        }

        fn take(&mut self, out: &mut [u8]) -> Result<(), DecodeError> {
            let mut left = &self.bytes[..];
            left.take(out)?;
            self.bytes = left.to_vec();
            Ok(())
        }

        fn take_file(&mut self) -> Result<OwnedFd, DecodeError> {
            if self.files.is_empty() { Err(DecodeError::NoFile) } else { Ok(self.files.remove(0)) }
        }
    }

    fn pipe() -> (OwnedFd, OwnedFd) {
        let (reader, writer) = std::io::pipe().unwrap();
        (reader.into(), writer.into())
    }

    #[test]
    fn files_go_beside_in_their_order() {
        use std::io::{Read, Write};
        let (reader, writer) = pipe();
        let value = (7u8, Some(reader), vec![File::from(writer)], None::<File>);
        let mut out_of_band = OutOfBand::default();
        value.encode(&mut out_of_band);
        assert_eq!((&out_of_band.bytes[..], out_of_band.files.len()), (&[7, 1, 1, 0][..], 2));
        assert_eq!(out_of_band.bytes.len(), value.size());
        drop(value);
        let (seven, reader, mut writers, none) =
            <(u8, Option<File>, Vec<File>, Option<OwnedFd>)>::decode(&mut out_of_band).unwrap();
        assert!(seven == 7 && none.is_none() && out_of_band.files.is_empty());
        writers[0].write_all(b"through").unwrap();
        drop(writers);
        let mut read = String::new();
        reader.unwrap().read_to_string(&mut read).unwrap();
        assert_eq!(read, "through");
    }

    #[test]
    fn bytes_alone_carry_no_file() {
        let (reader, _writer) = pipe();
        assert_eq!(to_bytes(&reader), []);
        assert_eq!(from_bytes::<OwnedFd>(&[]).unwrap_err(), DecodeError::NoFile);
        assert_eq!(from_bytes::<Vec<OwnedFd>>(&[200]).unwrap_err(), DecodeError::NoFile);
        let mut cell = [0; 8];
        let mut sink = SliceSink::new(&mut cell);
        (1u8, reader).encode(&mut sink);
        assert!(sink.overflowed(), "who looks is told");
    }
}
