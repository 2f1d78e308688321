//! One message, as it lies in a line of a ring.

use crate::layout::LINE_WORDS;
use crate::payload::Payload;
use crate::window::Advance;

/// The most bytes of arguments or results that travel in the cell itself.
pub const INLINE: usize = (LINE_WORDS - 1) * 8;

/// In a head, always: no word of a fresh region, and no end of a line, is one.
const PRESENT: u64 = 1 << 63;
/// Where the head says that the call is bounded.
const BOUNDED: u32 = 56;
/// Where it says, by twos and rounded up, how many of the messages before it may be untaken; and
/// the most that it can say, for that many or more.
const BEHIND: u32 = 57;
const MANY: u32 = 15;
/// Where it says on which line the next message will lie.
const ADVANCE: u32 = 61;

/// Where the bytes of a message lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadPlace {
    /// In the cell.
    Inline,
    /// In the A-stack of the cell's slot.
    Stack,
    /// Out of band: a parcel that was passed over the binding's socket says where, and may hold
    /// files beside them.
    OutOfBand,
    /// In the slot's annex: the one of which the slot's kept word says that the server has it.
    OverflowBuffer,
}

/// A private copy of a cell. What came out of a region is checked for form here and for sense by
/// who takes it.
///
/// ```text
/// head      sequence : 16 | slot : 16 | what : 16 | length : 6 | place : 2 | bounded : 1 | behind : 4 | advance : 2 | 1 : 1      stored last, and so publishes the rest
/// payload   the bytes, rounded up to words; or the length alone, if they lie elsewhere
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Cell {
    /// The bytes, if they lie here. What is behind them means nothing.
    pub payload: Payload,
    /// Bytes of arguments or results.
    pub length: u32,
    /// Where they lie.
    pub place: PayloadPlace,
    /// In a request: the client may cease to want it, and says so in the slot's word
    /// ([`CancelWord`](crate::Wanted)).
    pub bounded: bool,
    /// Its slot, and what it is.
    pub ids: Ids,
}

/// Whose message it is: its slot, and what it is. In one piece, as it is in a head: read from two
/// that were just written, the processor would wait until all that it wrote before is out (decision
/// 0021).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids(u32);

impl Ids {
    /// Of a message for `slot`.
    #[inline(always)]
    pub const fn new(slot: u16, what: u16) -> Self {
        Self(slot as u32 | (what as u32) << 16)
    }

    /// The slot of the call.
    #[inline(always)]
    pub const fn slot(self) -> u16 {
        self.0 as u16
    }

    /// The procedure, in a request; the outcome, in a reply.
    #[inline(always)]
    pub const fn what(self) -> u16 {
        (self.0 >> 16) as u16
    }
}

impl Cell {
    /// A message without bytes.
    #[inline]
    pub fn new(slot: u16, what: u16) -> Self {
        let ids = Ids::new(slot, what);
        Self { ids, length: 0, place: PayloadPlace::Inline, bounded: false, payload: Payload::new() }
    }

    /// The slot of the call.
    #[inline(always)]
    pub fn slot(&self) -> u16 {
        self.ids.slot()
    }

    /// The procedure, in a request; the outcome, in a reply.
    #[inline(always)]
    pub fn what(&self) -> u16 {
        self.ids.what()
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
        if self.place == PayloadPlace::Inline { self.length as usize } else { 0 }
    }

    /// Words of the payload in a ring.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        match self.place {
            PayloadPlace::Inline => ((self.length as usize + 7) >> 3).min(Payload::WORDS),
            PayloadPlace::Stack | PayloadPlace::OutOfBand | PayloadPlace::OverflowBuffer => 1,
        }
    }

    /// The head, and the first word of the payload; for the message of this sequence, before which
    /// so many may be untaken, and behind which the next lies there.
    #[inline(always)]
    pub(crate) fn head(&self, sequence: u32, behind: u32, advance: Advance) -> (u64, u64) {
        let (place, length, first) = match self.place {
            PayloadPlace::Inline => (0, u64::from(self.length.min(0x3f)), self.payload.word(0)),
            elsewhere => (elsewhere as u64, 0, u64::from(self.length)),
        };
        let behind = behind.min(2 * MANY).div_ceil(2);
        let way = u64::from(behind) << BEHIND | (advance as u64) << ADVANCE;
        let head = mark(sequence) | way | u64::from(self.ids.0) << 16;
        (head | length << 48 | place << 54 | u64::from(self.bounded) << BOUNDED, first)
    }

    /// A message that has come.
    #[inline(always)]
    pub fn from_parts(head: Head, payload: Payload) -> Self {
        let mut cell = Self { payload, ..Self::of(head) };
        if cell.place != PayloadPlace::Inline {
            cell.length = cell.payload.word(0) as u32;
        }
        cell
    }

    /// What a head says, and zeros.
    #[inline(always)]
    pub fn of(head: Head) -> Self {
        let place = match head.place() {
            0 => PayloadPlace::Inline,
            1 => PayloadPlace::Stack,
            2 => PayloadPlace::OutOfBand,
            _ => PayloadPlace::OverflowBuffer,
        };
        let bounded = head.0 >> BOUNDED & 1 != 0;
        Self { ids: head.ids(), length: head.length(), place, bounded, payload: Payload::new() }
    }
}

/// A private copy of the head of a message that has come: of a form that an honest peer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head(u64);

impl Head {
    /// Where it says how many bytes lie in the cell, and where all lie.
    const LENGTH: u32 = 48;
    const PLACE: u32 = 54;

    /// `word`, if it has the form.
    #[inline(always)]
    pub fn new(word: u64) -> Option<Self> {
        let head = Self(word);
        // The place is zero if the cell has the bytes, as most have.
        let of_inline = (word & ((1 << BOUNDED) - 1)) >> Self::LENGTH <= INLINE as u64;
        (of_inline || (head.place() != 0 && head.length() == 0)).then_some(head)
    }

    /// The head that was `word`.
    #[inline(always)]
    pub fn from_word(word: u64) -> Self {
        debug_assert!(Self::new(word).is_some());
        Self(word)
    }

    /// As one word, of which [`again`](Self::again) makes it again.
    #[inline(always)]
    pub fn word(self) -> u64 {
        self.0
    }

    /// On which line the message behind that of the head `word` lies, whatever else it says.
    #[inline(always)]
    pub(crate) fn advance_of(word: u64) -> Advance {
        Advance::of((word >> ADVANCE) as u32)
    }

    /// How many of the messages before it, at the most, may have been untaken when it was posted.
    #[inline(always)]
    pub fn behind(self) -> u32 {
        match (self.0 >> BEHIND) as u32 & MANY {
            MANY => u32::MAX,
            twos => 2 * twos,
        }
    }

    /// Whose message it is.
    #[inline(always)]
    pub fn ids(self) -> Ids {
        Ids((self.0 >> 16) as u32)
    }

    /// The slot of the call.
    #[inline(always)]
    pub fn slot(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The procedure, in a request; the outcome, in a reply.
    #[inline(always)]
    pub fn what(self) -> u16 {
        (self.0 >> 32) as u16
    }

    #[inline(always)]
    fn place(self) -> u32 {
        (self.0 >> Self::PLACE) as u32 & 3
    }

    /// Bytes that lie in the cell.
    #[inline(always)]
    fn length(self) -> u32 {
        (self.0 >> Self::LENGTH) as u32 & 0x3f
    }

    /// Bytes of a message of this kind, if they lie in the cell.
    #[inline(always)]
    pub fn inline_len(self, what: u16) -> Option<usize> {
        let kind = 0xffff << 32 | 3 << Self::PLACE;
        (self.0 & kind == u64::from(what) << 32).then(|| self.length() as usize)
    }

    /// Bytes of a request, if they lie in the cell and the call is not bounded.
    #[inline(always)]
    pub fn inline_request(self) -> Option<usize> {
        (self.0 & (3 << Self::PLACE | 1 << BOUNDED) == 0).then(|| self.length() as usize)
    }

    /// The same, if they lie in the A-stack; `payload` says how many.
    #[inline(always)]
    pub fn stacked_request(self, payload: &Payload) -> Option<usize> {
        let stacked =
            self.0 & (3 << Self::PLACE | 1 << BOUNDED) == (PayloadPlace::Stack as u64) << Self::PLACE;
        stacked.then(|| payload.word(0) as u32 as usize)
    }

    /// Whether it is a message of this kind whose bytes lie in the A-stack; the payload says how
    /// many.
    #[inline(always)]
    pub fn is_stacked(self, what: u16) -> bool {
        let kind = 0xffff << 32 | 3 << Self::PLACE;
        self.0 & kind == u64::from(what) << 32 | (PayloadPlace::Stack as u64) << Self::PLACE
    }

    /// Words of the payload in a ring, at least one: at most [`Payload::WORDS`].
    #[inline(always)]
    pub(crate) fn used(self) -> usize {
        // The length is zero where the bytes lie elsewhere: then the one word is theirs.
        ((self.length() as usize + 7) >> 3).max(1)
    }

    /// Bytes that cross with the cell itself.
    #[inline(always)]
    pub(crate) fn crossing(self) -> usize {
        self.length() as usize
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
        let elsewhere = Cell { length: 70_000, place: PayloadPlace::Stack, ..Cell::new(1, 2) };
        let bounded = Cell { bounded: true, ..Cell::new(9, 9) };
        for cell in [Cell::inline(63, 7, b"hello").unwrap(), elsewhere, bounded] {
            let (head, first) = cell.head(u32::MAX, 0, Advance::Short);
            let mut payload = Payload::new();
            payload.set_word(0, first);
            let read = Cell::from_parts(Head::new(head).unwrap(), payload);
            assert_eq!((read.ids, read.place), (cell.ids, cell.place));
            assert_eq!(
                (read.length, read.bounded, first),
                (cell.length, cell.bounded, cell.head(0, 7, Advance::Full).1)
            );
            assert!(is_head(head, u32::MAX) && !is_head(head, 0) && !is_head(0, 0));
        }
    }

    #[test]
    fn a_head_that_no_honest_peer_writes_is_none() {
        for head in [1 << 48 | 3 << 54, 1 << 48 | 1 << 54, (INLINE as u64 + 1) << 48] {
            assert_eq!(Head::new(PRESENT | head), None);
        }
    }

    #[test]
    fn bytes_fit_or_are_refused() {
        assert_eq!(Cell::inline(0, 0, &[7; INLINE]).unwrap().bytes(), [7; INLINE]);
        assert_eq!(Cell::inline(0, 0, &[0; INLINE + 1]), None);
    }
}
