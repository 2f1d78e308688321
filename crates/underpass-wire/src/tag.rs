//! The tag of an enum, which says which variant follows.

use crate::{Decode, DecodeError, Encode, Sink, Source};

/// The bytes that the tag of an enum of `variants` variants takes.
pub const fn size(variants: usize) -> usize {
    match variants {
        0..=0x100 => 1,
        0x101..=0x1_0000 => 2,
        _ => 4,
    }
}

/// Puts the tag of a variant: its position in an enum of `variants`.
#[inline]
pub fn encode<S: Sink + ?Sized>(tag: u32, variants: usize, to: &mut S) {
    to.put(&tag.to_le_bytes()[..size(variants)]);
}

/// Takes the tag of an enum of `variants`. It may be larger than that of any variant.
///
/// # Errors
/// [`DecodeError::Truncated`].
#[inline]
pub fn decode<S: Source + ?Sized>(variants: usize, from: &mut S) -> Result<u32, DecodeError> {
    match size(variants) {
        1 => u8::decode(from).map(u32::from),
        2 => u16::decode(from).map(u32::from),
        _ => u32::decode(from),
    }
}

/// Puts one byte, 0 or 1, as `bool`, `Option` and `Result` do.
#[inline]
pub(crate) fn encode_bit<S: Sink + ?Sized>(bit: bool, to: &mut S) {
    u8::from(bit).encode(to);
}

/// Takes one byte that is 0 or 1.
#[inline]
pub(crate) fn decode_bit<S: Source + ?Sized>(of: &'static str, from: &mut S) -> Result<bool, DecodeError> {
    match u8::decode(from)? {
        0 => Ok(false),
        1 => Ok(true),
        tag => Err(DecodeError::BadTag { of, tag: tag.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_takes_what_it_needs() {
        for (variants, bytes) in [(1, 1), (256, 1), (257, 2), (65_536, 2), (65_537, 4)] {
            let last = variants as u32 - 1;
            let mut to = Vec::new();
            encode(last, variants, &mut to);
            assert_eq!(to.len(), bytes);
            assert_eq!(decode(variants, &mut &to[..]), Ok(last));
        }
    }
}
