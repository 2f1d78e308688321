//! The kind of the value that follows.

use crate::{Decode, DecodeError, Encode, Sink, Source};

/// The first byte of each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    /// The end of a `Seq` or a `Map`. It is not a value.
    End,
    Unit,
    False,
    True,
    U8,
    U16,
    U32,
    U64,
    U128,
    I8,
    I16,
    I32,
    I64,
    I128,
    F32,
    F64,
    Char,
    /// A length and bytes in UTF-8.
    Str,
    /// A length and bytes.
    Bytes,
    None,
    /// A value.
    Some,
    /// Values, and `End`.
    Seq,
    /// Keys, each with its value, and then `End`. A variant with fields is a map with one key, and
    /// a unit variant a `Str`.
    Map,
}

/// All kinds, by their byte.
const KINDS: [ValueKind; 23] = {
    use ValueKind::*;
    [
        End, Unit, False, True, U8, U16, U32, U64, U128, I8, I16, I32, I64, I128, F32, F64, Char, Str, Bytes,
        None, Some, Seq, Map,
    ]
};

impl ValueKind {
    pub(super) fn encode<S: Sink + ?Sized>(self, to: &mut S) {
        (self as u8).encode(to);
    }

    pub(super) fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        let tag = u8::decode(from)?;
        KINDS.get(usize::from(tag)).copied().ok_or(DecodeError::BadTag { of: "Serde", tag: tag.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_found_by_its_byte() {
        for (byte, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, byte);
        }
        assert!(ValueKind::decode(&mut &[KINDS.len() as u8][..]).is_err());
    }
}
