//! `io::ErrorKind` and `io::Error`.

use crate::{Decode, DecodeError, Encode, Schema, Sink, Source, TypeName, Types};
use std::io::{Error, ErrorKind};

/// The numbers by which kinds travel. A number keeps its meaning for ever. A kind without a number
/// travels as [`ErrorKind::Other`].
macro_rules! kinds {
    ($($number:literal $kind:ident)*) => {
        fn number(kind: ErrorKind) -> u8 {
            match kind {
                $(ErrorKind::$kind => $number,)*
                _ => 0,
            }
        }

        fn kind(number: u8) -> Option<ErrorKind> {
            Some(match number {
                $($number => ErrorKind::$kind,)*
                _ => return None,
            })
        }

        #[cfg(test)]
        const KINDS: &[ErrorKind] = &[$(ErrorKind::$kind),*];
    };
}

kinds! {
    0 Other 1 NotFound 2 PermissionDenied 3 ConnectionRefused 4 ConnectionReset 5 HostUnreachable
    6 NetworkUnreachable 7 ConnectionAborted 8 NotConnected 9 AddrInUse 10 AddrNotAvailable 11 NetworkDown
    12 BrokenPipe 13 AlreadyExists 14 WouldBlock 15 NotADirectory 16 IsADirectory 17 DirectoryNotEmpty
    18 ReadOnlyFilesystem 19 StaleNetworkFileHandle 20 InvalidInput 21 InvalidData 22 TimedOut 23 WriteZero
    24 StorageFull 25 NotSeekable 26 QuotaExceeded 27 FileTooLarge 28 ResourceBusy 29 ExecutableFileBusy
    30 Deadlock 31 CrossesDevices 32 TooManyLinks 33 InvalidFilename 34 ArgumentListTooLong 35 Interrupted
    36 Unsupported 37 UnexpectedEof 38 OutOfMemory
}

impl Encode for ErrorKind {
    const FIXED: Option<usize> = Some(1);

    #[inline]
    fn size(&self) -> usize {
        1
    }

    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        number(*self).encode(to);
    }
}

impl Decode for ErrorKind {
    const LEAST: usize = 1;

    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        let number = u8::decode(from)?;
        kind(number).ok_or(DecodeError::BadTag { of: "io::ErrorKind", tag: number.into() })
    }
}

impl Schema for ErrorKind {
    type Itself = Self;

    fn schema(_: &mut Types) -> TypeName {
        TypeName::plain("io::ErrorKind")
    }
}

/// The system's error number, if the error has one. Otherwise its kind, and its text if that is not
/// the kind's own.
fn parts(error: &Error) -> Result<i32, (ErrorKind, String)> {
    if let Some(code) = error.raw_os_error() {
        return Ok(code);
    }
    let (kind, text) = (error.kind(), error.to_string());
    Err((kind, if text == kind.to_string() { String::new() } else { text }))
}

/// The inner error and its source do not travel, but its text does.
impl Encode for Error {
    const FIXED: Option<usize> = None;

    fn size(&self) -> usize {
        parts(self).size()
    }

    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        parts(self).encode(to);
    }
}

impl Decode for Error {
    /// The form of the error, its kind, and the length of a text.
    const LEAST: usize = 3;

    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        Ok(match Result::<i32, (ErrorKind, String)>::decode(from)? {
            Ok(code) => Self::from_raw_os_error(code),
            Err((kind, text)) if text.is_empty() => kind.into(),
            Err((kind, text)) => Self::new(kind, text),
        })
    }
}

impl Schema for Error {
    type Itself = Self;

    fn schema(_: &mut Types) -> TypeName {
        TypeName::plain("io::Error")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{from_bytes, to_bytes};

    #[test]
    fn every_kind_has_a_number() {
        for (number, &kind) in (0u8..).zip(KINDS) {
            assert_eq!(to_bytes(&kind), [number]);
            assert_eq!(from_bytes(&[number]), Ok(kind));
        }
        let first = KINDS.len() as u8;
        for number in first..=u8::MAX {
            let error = DecodeError::BadTag { of: "io::ErrorKind", tag: number.into() };
            assert_eq!(from_bytes::<ErrorKind>(&[number]), Err(error));
        }
        // Too many open files. This kind has no stable name yet.
        assert_eq!(to_bytes(&Error::from_raw_os_error(24).kind()), [0]);
    }
}
