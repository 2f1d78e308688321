//! The number of elements that follow.

use crate::{Decode, DecodeError, Encode, Sink, Source};

/// The byte that announces a length of eight bytes.
const LONG: u8 = 255;

/// The most elements that take no bytes, because no bytes limit the time that they cost.
const WEIGHTLESS: usize = 4096;

/// Bytes that may be reserved before the elements have come.
const AHEAD: usize = 4096;

#[inline]
pub(crate) fn size(len: usize) -> usize {
    if len < LONG as usize { 1 } else { 9 }
}

#[inline]
pub(crate) fn encode<S: Sink + ?Sized>(len: usize, to: &mut S) {
    if len < LONG as usize {
        to.put(&[len as u8]);
    } else {
        to.put(&[LONG]);
        (len as u64).encode(to);
    }
}

/// Takes the length at the beginning of a `Vec<T>`, if the bytes for that many `T`s can be there.
///
/// # Errors
/// [`DecodeError::TooLong`] and [`DecodeError::Truncated`] if they cannot be there.
#[inline]
pub fn decode<T: Decode, S: Source + ?Sized>(from: &mut S) -> Result<usize, DecodeError> {
    let len = match u8::decode(from)? {
        LONG => usize::try_from(u64::decode(from)?).map_err(|_| DecodeError::TooLong)?,
        n => usize::from(n),
    };
    match from.remaining().checked_div(T::LEAST) {
        Some(most) if len > most => Err(DecodeError::Truncated),
        None if len > WEIGHTLESS => Err(DecodeError::TooLong),
        _ => Ok(len),
    }
}

/// The number of `T`s to reserve room for, when `len` are announced and `remaining` bytes have
/// come.
///
/// A `T` may be far larger in memory than in bytes, so this reserves no more bytes than have come.
/// A list that is really that long grows as its elements arrive.
#[inline]
pub(crate) fn capacity<T>(len: usize, remaining: usize) -> usize {
    len.min(remaining.max(AHEAD) / size_of::<T>().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_length_come_back() {
        for len in [0, 1, 254, 255, 256, 1 << 20] {
            let mut bytes = Vec::new();
            encode(len, &mut bytes);
            assert_eq!(bytes.len(), size(len));
            bytes.resize(bytes.len() + len, 0);
            assert_eq!(decode::<u8, _>(&mut &bytes[..]), Ok(len));
        }
    }

    #[test]
    fn a_length_is_not_believed() {
        assert_eq!(decode::<u32, _>(&mut &[2, 0, 0, 0, 0, 0, 0, 0][..]), Err(DecodeError::Truncated));
        assert_eq!(decode::<u8, _>(&mut &[255; 100][..]), Err(DecodeError::Truncated));
        assert_eq!(decode::<(), _>(&mut &[255; 100][..]), Err(DecodeError::TooLong));
        assert_eq!(decode::<u8, _>(&mut &[255; 8][..]), Err(DecodeError::Truncated));
    }

    #[test]
    fn no_more_is_reserved_than_came() {
        assert_eq!(capacity::<[u8; 1 << 20]>(1000, 1000), 0);
        assert_eq!(capacity::<u64>(10, 80), 10);
        assert_eq!(capacity::<u64>(1 << 40, 1 << 20), 1 << 17);
        assert_eq!(capacity::<()>(7, 0), 7);
    }
}
