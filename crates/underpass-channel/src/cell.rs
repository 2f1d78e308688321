//! One message, as it lies in one cache line.

use crate::layout::CELL_WORDS;

/// The most bytes of arguments or results that travel in the cell itself.
pub const INLINE: usize = (CELL_WORDS - 2) * 8;

/// Where the bytes of a message lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the cell.
    Inline,
    /// In the A-stack of the cell's slot.
    Stack,
    /// Out of band: in a file that was passed over the binding's socket.
    Blob,
}

/// A private copy of a cell. What came out of a region is checked for form here and for sense by who takes it.
///
/// ```text
/// word 0    sequence : 32 | slot : 16 | what : 16      stored last, and so publishes the rest
/// word 1    length : 32 | place : 8 | 0 : 24
/// word 2..8 INLINE bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The slot of the call.
    pub slot: u16,
    /// The procedure, in a request; the outcome, in a reply.
    pub what: u16,
    /// Bytes of arguments or results.
    pub length: u32,
    /// Where they lie.
    pub place: Place,
    /// The bytes, if they lie here.
    pub payload: [u64; CELL_WORDS - 2],
}

impl Cell {
    /// A message without bytes.
    #[inline]
    pub fn new(slot: u16, what: u16) -> Self {
        Self { slot, what, length: 0, place: Place::Inline, payload: [0; CELL_WORDS - 2] }
    }

    /// A message with `bytes` in the cell, or nothing if they don't fit.
    #[inline]
    pub fn inline(slot: u16, what: u16, bytes: &[u8]) -> Option<Self> {
        let mut cell = Self::new(slot, what);
        let mut padded = [0u8; INLINE];
        padded.get_mut(..bytes.len())?.copy_from_slice(bytes);
        for (word, bytes) in cell.payload.iter_mut().zip(padded.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        cell.length = bytes.len() as u32;
        Some(cell)
    }

    /// The bytes that lie in the cell.
    #[inline]
    pub fn bytes(&self) -> ([u8; INLINE], usize) {
        let mut bytes = [0u8; INLINE];
        for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.payload) {
            *bytes = word.to_le_bytes();
        }
        (bytes, (self.length as usize).min(INLINE))
    }

    /// Words of the payload that carry something.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        match self.place {
            Place::Inline => (self.length as usize).div_ceil(8).min(self.payload.len()),
            Place::Stack | Place::Blob => 0,
        }
    }

    #[inline]
    pub(crate) fn head(&self, sequence: u32) -> [u64; 2] {
        let place = match self.place {
            Place::Inline => 0u64,
            Place::Stack => 1,
            Place::Blob => 2,
        };
        let first = u64::from(sequence) | u64::from(self.slot) << 32 | u64::from(self.what) << 48;
        [first, u64::from(self.length) | place << 32]
    }

    /// Reads the two words of a head; nothing if no honest peer writes such.
    #[inline]
    pub(crate) fn from_head(head: [u64; 2]) -> Option<Self> {
        let mut cell = Self::new((head[0] >> 32) as u16, (head[0] >> 48) as u16);
        cell.length = head[1] as u32;
        cell.place = match head[1] >> 32 {
            0 if cell.length as usize <= INLINE => Place::Inline,
            1 => Place::Stack,
            2 => Place::Blob,
            _ => return None,
        };
        Some(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_survives_the_line() {
        let cell = Cell::inline(63, 7, b"hello").unwrap();
        let read = Cell::from_head(cell.head(u32::MAX)).unwrap();
        assert_eq!((read.slot, read.what, read.length, read.place), (63, 7, 5, Place::Inline));
        assert_eq!(cell.head(u32::MAX)[0] as u32, u32::MAX);
    }

    #[test]
    fn a_head_that_no_honest_peer_writes_is_none() {
        assert_eq!(Cell::from_head([0, 3 << 32]), None);
        assert_eq!(Cell::from_head([0, 1 << 40]), None);
        assert_eq!(Cell::from_head([0, INLINE as u64 + 1]), None);
    }

    #[test]
    fn bytes_fit_or_are_refused() {
        let (bytes, len) = Cell::inline(0, 0, &[7; INLINE]).unwrap().bytes();
        assert_eq!((&bytes[..len], len), (&[7; INLINE][..], INLINE));
        assert_eq!(Cell::inline(0, 0, &[0; INLINE + 1]), None);
    }
}
