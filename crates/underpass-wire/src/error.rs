//! The errors of untrusted bytes.

use std::error::Error;
use std::fmt;

/// Why bytes are not a value of the requested type.
///
/// Whatever the bytes are, decoding ends with a value or with one of these errors. The remedy for
/// [`NoStack`](Self::NoStack) is a larger stack. The others have no remedy on this side: the other
/// side is damaged, hostile, or has another interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end before the value does.
    Truncated,
    /// A length that is too large for this side, or for the bytes that came.
    TooLong,
    /// Four bytes that are not a `char`.
    BadChar(u32),
    /// A string that is not UTF-8.
    BadUtf8,
    /// A number of no variant of the type.
    BadTag {
        /// The type, as its author wrote it.
        of: &'static str,
        /// The number.
        tag: u32,
    },
    /// Bytes that no value of the type has: a zero for a `NonZero`, or a repeated key in a map.
    BadValue {
        /// The type, as its author wrote it.
        of: &'static str,
    },
    /// That many bytes follow that belong to no value.
    LeftOver(usize),
    /// A file that belongs to the value did not come.
    NoFile,
    /// A file has come, and this domain has no room for another: close some, or raise `ulimit -n`.
    NoRoomForFile,
    /// That many files came that belong to no value.
    FilesLeftOver(usize),
    /// An interface that belongs to the value did not come.
    NoInterface,
    /// An interface that came is none that this side was given, or has ended.
    NotGiven,
    /// An interface came, and its sender's user may have no more of them here.
    NoRoomForInterface,
    /// That many interfaces came that belong to no value.
    InterfacesLeftOver(usize),
    /// Values nested deeper than [`DEEPEST`](crate::DEEPEST).
    TooDeep,
    /// Values are nested more deeply than the stack has room for.
    NoStack {
        /// Bytes of that stack.
        size: usize,
    },
    /// `serde` or the type's own `Deserialize` refused the bytes, or its `Serialize` refused the
    /// value.
    Serde,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the bytes end before the value does"),
            Self::TooLong => f.write_str("a length is larger than this side can hold"),
            Self::BadChar(n) => write!(f, "{n:#x} is no char"),
            Self::BadUtf8 => f.write_str("a string is not UTF-8"),
            Self::BadTag { of, tag } => write!(f, "{tag} stands for no variant of {of}"),
            Self::BadValue { of } => write!(f, "the bytes are no value of {of}"),
            Self::LeftOver(n) => write!(f, "{n} bytes are left over after the value"),
            Self::NoRoomForFile => f.write_str("too many open files where a file should arrive"),
            Self::NoFile => f.write_str("a file that belongs to the value did not come along"),
            Self::FilesLeftOver(n) => write!(f, "{n} files came along that belong to no value"),
            Self::NoInterface => f.write_str("an interface that belongs to the value did not come along"),
            Self::NotGiven => f.write_str("an interface came along that was never given, or has ended"),
            Self::NoRoomForInterface => {
                f.write_str("an interface came along, and its user has as many as it may")
            }
            Self::InterfacesLeftOver(n) => write!(f, "{n} interfaces came along that belong to no value"),
            Self::TooDeep => write!(f, "values are nested deeper than {}", crate::DEEPEST),
            Self::NoStack { size } => {
                write!(f, "a value is nested more deeply than a stack of {} KiB has room for", size / 1024)
            }
            Self::Serde => f.write_str("serde refused the value or its bytes"),
        }
    }
}

impl Error for DecodeError {}
