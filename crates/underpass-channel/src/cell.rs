//! One message, as it lies in a line of a ring.

use crate::layout::LINE_WORDS;

/// The most bytes of arguments or results that travel in the cell itself.
pub const INLINE: usize = (LINE_WORDS - 1) * 8;

/// In a head, always: no word of a fresh region, and no end of a line, is one.
const PRESENT: u64 = 1 << 63;
/// Where the head says that the call is bounded.
const BOUNDED: u32 = 56;

/// Where the bytes of a message lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the cell.
    Inline,
    /// In the A-stack of the cell's slot.
    Stack,
    /// Out of band: a parcel that was passed over the binding's socket says where, and may hold files beside them.
    Aside,
    /// In the slot's annex: the one of which the slot's kept word says that the server has it.
    Annex,
}

/// A private copy of a cell. What came out of a region is checked for form here and for sense by who takes it.
///
/// ```text
/// head      sequence : 16 | slot : 16 | what : 16 | length : 6 | place : 2 | bounded : 1 | 0 : 6 | 1 : 1      stored last, and so publishes the rest
/// payload   the bytes, rounded up to words; or the length alone, if they lie elsewhere
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
    /// In a request: the client may cease to want it, and says so in the slot's word ([`Wanted`](crate::Wanted)).
    pub bounded: bool,
    /// The bytes, if they lie here; zeros behind them.
    pub payload: Payload,
}

/// Bytes that travel word by word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(8))]
pub struct Payload(pub [u8; INLINE]);

impl Payload {
    /// Words of a payload.
    pub const WORDS: usize = LINE_WORDS - 1;

    /// Zeros.
    #[inline(always)]
    pub const fn new() -> Self {
        Self([0; INLINE])
    }

    /// The word at `index`.
    ///
    /// # Panics
    /// If there are fewer than [`WORDS`](Self::WORDS).
    #[inline(always)]
    pub fn word(&self, index: usize) -> u64 {
        u64::from_le_bytes(self.0.as_chunks::<8>().0[index])
    }

    /// Sets the word at `index`.
    ///
    /// # Panics
    /// As [`word`](Self::word).
    #[inline(always)]
    pub fn set_word(&mut self, index: usize, word: u64) {
        self.0.as_chunks_mut::<8>().0[index] = word.to_le_bytes();
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self::new()
    }
}

impl Cell {
    /// A message without bytes.
    #[inline]
    pub fn new(slot: u16, what: u16) -> Self {
        Self { slot, what, length: 0, place: Place::Inline, bounded: false, payload: Payload::new() }
    }

    /// A message with `bytes` in the cell, or nothing if they don't fit.
    #[inline(always)]
    pub fn inline(slot: u16, what: u16, bytes: &[u8]) -> Option<Self> {
        let mut cell = Self::new(slot, what);
        cell.payload.0.get_mut(..bytes.len())?.copy_from_slice(bytes);
        cell.length = bytes.len() as u32;
        Some(cell)
    }

    /// The bytes that lie in the cell.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        &self.payload.0[..(self.length as usize).min(INLINE)]
    }

    /// Bytes that cross with the cell itself.
    #[inline(always)]
    pub(crate) fn crossing(&self) -> usize {
        if self.place == Place::Inline { self.length as usize } else { 0 }
    }

    /// Words of the payload in a ring.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        match self.place {
            Place::Inline => (self.length as usize).div_ceil(8).min(Payload::WORDS),
            Place::Stack | Place::Aside | Place::Annex => 1,
        }
    }

    /// The head, and the first word of the payload.
    #[inline(always)]
    pub(crate) fn head(&self, sequence: u32) -> (u64, u64) {
        let (place, length, first) = match self.place {
            Place::Inline => (0, u64::from(self.length.min(0x3f)), self.payload.word(0)),
            Place::Stack => (1, 0, u64::from(self.length)),
            Place::Aside => (2, 0, u64::from(self.length)),
            Place::Annex => (3, 0, u64::from(self.length)),
        };
        let head = mark(sequence) | u64::from(self.slot) << 16 | u64::from(self.what) << 32;
        (head | length << 48 | place << 54 | u64::from(self.bounded) << BOUNDED, first)
    }

    /// Takes over what a head says; `false` if no honest peer writes such. The payload is to follow, by [`used`](Self::used).
    #[inline(always)]
    pub(crate) fn set_head(&mut self, head: u64) -> bool {
        self.slot = (head >> 16) as u16;
        self.what = (head >> 32) as u16;
        let length = (head >> 48) as u32 & 0x3f;
        self.length = length;
        self.bounded = head >> BOUNDED & 1 != 0;
        self.place = match head >> 54 & 0x1fb {
            0 if length as usize <= INLINE => Place::Inline,
            1 if length == 0 => Place::Stack,
            2 if length == 0 => Place::Aside,
            3 if length == 0 => Place::Annex,
            _ => return false,
        };
        true
    }

    /// The payload has been read: takes the length out of it, if it is there.
    #[inline(always)]
    pub(crate) fn complete(&mut self) {
        if self.place != Place::Inline {
            self.length = self.payload.word(0) as u32;
        }
    }
}

/// What the head of the cell with this sequence has in it.
#[inline]
fn mark(sequence: u32) -> u64 {
    u64::from(sequence as u16) | PRESENT
}

/// Whether `word` is the head of the cell with this sequence.
#[inline]
pub(crate) fn is_head(word: u64, sequence: u32) -> bool {
    word & (PRESENT | 0xffff) == mark(sequence)
}

/// The sequence of the cell whose head `word` is, if it is one.
#[inline]
pub(crate) fn sequence_of(word: u64) -> Option<u16> {
    (word & PRESENT != 0).then_some(word as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_survives_the_line() {
        let elsewhere = Cell { length: 70_000, place: Place::Stack, ..Cell::new(1, 2) };
        let bounded = Cell { bounded: true, ..Cell::new(9, 9) };
        for cell in [Cell::inline(63, 7, b"hello").unwrap(), elsewhere, bounded] {
            let (head, first) = cell.head(u32::MAX);
            let mut read = Cell::new(0, 0);
            assert!(read.set_head(head));
            read.payload.set_word(0, first);
            read.complete();
            assert_eq!((read.slot, read.what, read.place), (cell.slot, cell.what, cell.place));
            assert_eq!((read.length, read.bounded, first), (cell.length, cell.bounded, cell.head(0).1));
            assert!(is_head(head, u32::MAX) && !is_head(head, 0) && !is_head(0, 0));
        }
    }

    #[test]
    fn a_head_that_no_honest_peer_writes_is_none() {
        for head in [1 << 48 | 3 << 54, 1 << 57, 1 << 60, 1 << 48 | 1 << 54, (INLINE as u64 + 1) << 48] {
            assert!(!Cell::new(0, 0).set_head(PRESENT | head));
        }
    }

    #[test]
    fn bytes_fit_or_are_refused() {
        assert_eq!(Cell::inline(0, 0, &[7; INLINE]).unwrap().bytes(), [7; INLINE]);
        assert_eq!(Cell::inline(0, 0, &[0; INLINE + 1]), None);
    }
}
