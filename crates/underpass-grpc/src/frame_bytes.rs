//! Bytes of frames, which this crate passes on and never looks into.

use bytes::Bytes;
use underpass_wire::{Decode, DecodeError, Encode, Schema, Sink, Source, TypeName, Types, decode_length};

/// Bytes that travel as a `Vec<u8>` does, and become [`Bytes`] without a further copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameBytes(Bytes);

impl FrameBytes {
    /// The bytes.
    pub(crate) fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl<T: Into<Bytes>> From<T> for FrameBytes {
    fn from(bytes: T) -> Self {
        Self(bytes.into())
    }
}

impl Encode for FrameBytes {
    const FIXED: Option<usize> = None;

    fn size(&self) -> usize {
        self.0[..].size()
    }

    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        self.0[..].encode(to);
    }
}

impl Decode for FrameBytes {
    const LEAST: usize = 1;

    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        let len = decode_length::<u8, _>(from)?;
        from.take_vec(len).map(Self::from)
    }
}

impl Schema for FrameBytes {
    type Itself = Self;

    fn schema(types: &mut Types) -> TypeName {
        Vec::<u8>::schema(types)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use underpass_wire::{from_bytes, to_bytes};

    #[test]
    fn they_travel_as_a_vec_does() {
        for len in [0, 1, 254, 255, 70_000] {
            let bytes = vec![7u8; len];
            let frame = FrameBytes::from(bytes.clone());
            assert_eq!(to_bytes(&frame), to_bytes(&bytes));
            assert_eq!(to_bytes(&frame).len(), frame.size());
            assert_eq!(from_bytes::<FrameBytes>(&to_bytes(&frame)), Ok(frame));
        }
        assert_eq!(from_bytes::<FrameBytes>(&[2, 0]), Err(DecodeError::Truncated));
    }
}
