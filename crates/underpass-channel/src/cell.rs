//! A cell: one message, as it lies in a cache line of a ring.

use crate::layout::LINE_WORDS;
use crate::payload::Payload;
use crate::tag::Tag;
use crate::window::Advance;

/// The most bytes of results that travel in the cell itself. Requests have [`Tag::BYTES`] less, for
/// the tag of their row.
pub const INLINE: usize = (LINE_WORDS - 1) * 8;

/// Set in each head. No word of a fresh region has it.
const PRESENT: u64 = 1 << 63;
/// The bit of the head that says that the call is bounded.
const BOUNDED: u32 = 56;
/// `BEHIND`: the four bits of the head that tell how many messages before it may be untaken, as
/// half of that number, rounded up. `MANY`: the largest value of these bits, for that many or more.
const BEHIND: u32 = 57;
const MANY: u32 = 15;
/// The two bits of the head that tell on which line the next message will lie.
const ADVANCE: u32 = 61;

/// Where the bytes of a message lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadPlace {
    /// In the cell.
    Inline,
    /// In the A-stack of the cell's slot.
    Stack,
    /// Out of band: an out-of-band message that was passed over the control socket has the bytes,
    /// or says where they are. It may hold open files as well.
    OutOfBand,
    /// In the slot's overflow buffer that the server has mapped, as the slot's `mapped_overflow`
    /// word says.
    OverflowBuffer,
}

/// A private copy of a cell. Its form was checked when it was copied out of the region. Its
/// receiver checks whether it makes sense.
///
/// ```text
/// head      sequence : 16 | slot : 16 | what : 16 | length : 6 | place : 2 | bounded : 1 | behind : 4 | advance : 2 | present : 1
///           stored last, and so publishes the rest
/// payload   the bytes, rounded up to words; or only their number, if they lie elsewhere: see `Tag`
/// ```
///
/// A request begins with the tag of its row, which `length` includes if the bytes lie in the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Cell {
    /// The bytes, if they lie in the cell. Bytes beyond `length` have no meaning.
    pub payload: Payload,
    /// Bytes of arguments or results.
    pub length: u32,
    /// Where the bytes lie.
    pub place: PayloadPlace,
    /// In a request: the client may cancel the call, or its deadline may pass, and the slot's
    /// [`CancelWord`](crate::CancelWord) says so.
    pub bounded: bool,
    /// The slot and the kind.
    pub ids: Ids,
}

/// The slot of a message and its kind, in one word as in a head. The processor would have to wait
/// to read one word from two stores that are not in memory yet (decision 0021).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids(u32);

impl Ids {
    /// For a message of `slot`.
    #[inline(always)]
    pub const fn new(slot: u16, what: u16) -> Self {
        Self(slot as u32 | (what as u32) << 16)
    }

    /// The slot of the call.
    #[inline(always)]
    pub const fn slot(self) -> u16 {
        self.0 as u16
    }

    /// The kind: of a request its procedure, of a reply its outcome.
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

    /// A request without bytes, for the row `tag`.
    #[inline(always)]
    pub fn request(slot: u16, procedure: u16, tag: Tag) -> Self {
        let mut cell = Self::new(slot, procedure);
        cell.payload.set_word(0, tag.word());
        cell.length = Tag::BYTES as u32;
        cell
    }

    /// A request with `bytes` in the cell, for the row `tag`. `None` if they don't fit.
    pub fn inline_request(slot: u16, procedure: u16, tag: Tag, bytes: &[u8]) -> Option<Self> {
        let mut cell = Self::request(slot, procedure, tag);
        cell.payload.0[Tag::BYTES..].get_mut(..bytes.len())?.copy_from_slice(bytes);
        cell.length += bytes.len() as u32;
        Some(cell)
    }

    /// Of a request: the tag of its row, as the client says.
    #[inline(always)]
    pub fn tag(&self) -> Tag {
        Tag::of_word(self.payload.word(0))
    }

    /// The slot of the call.
    #[inline(always)]
    pub fn slot(&self) -> u16 {
        self.ids.slot()
    }

    /// The kind: of a request its procedure, of a reply its outcome.
    #[inline(always)]
    pub fn what(&self) -> u16 {
        self.ids.what()
    }

    /// A message with `bytes` in the cell. `None` if they don't fit.
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

    /// How many bytes of arguments or results the cell itself carries.
    #[inline(always)]
    pub(crate) fn crossing(&self) -> usize {
        if self.place == PayloadPlace::Inline { self.length as usize } else { 0 }
    }

    /// How many words of the payload are stored in a ring.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        match self.place {
            PayloadPlace::Inline => ((self.length as usize + 7) >> 3).min(Payload::WORDS),
            PayloadPlace::Stack | PayloadPlace::OutOfBand | PayloadPlace::OverflowBuffer => 1,
        }
    }

    /// The head of the message with this sequence number, and the first word of its payload.
    /// `behind` of its predecessors may be untaken, and its successor lies where `advance` says.
    #[inline(always)]
    pub(crate) fn head(&self, sequence: u32, behind: u32, advance: Advance) -> (u64, u64) {
        let (place, length, first) = match self.place {
            PayloadPlace::Inline => (0, u64::from(self.length.min(0x3f)), self.payload.word(0)),
            elsewhere => {
                let tag = Tag::of_word(self.payload.word(0)).word();
                (elsewhere as u64, 0, tag | u64::from(self.length) << Tag::BITS)
            }
        };
        let behind = behind.min(2 * MANY).div_ceil(2);
        let way = u64::from(behind) << BEHIND | u64::from(advance.bits()) << ADVANCE;
        let head = mark(sequence) | way | u64::from(self.ids.0) << 16;
        (head | length << 48 | place << 54 | u64::from(self.bounded) << BOUNDED, first)
    }

    /// The message of `head` and `payload`, both copied out of a ring.
    #[inline(always)]
    pub fn from_parts(head: Head, payload: Payload) -> Self {
        let mut cell = Self { payload, ..Self::of(head) };
        if cell.place != PayloadPlace::Inline {
            cell.length = (cell.payload.word(0) >> Tag::BITS) as u32;
        }
        cell
    }

    /// The message that `head` describes, with zeros for its bytes.
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

/// A private copy of the head of a message, in the form that honest peers write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head(u64);

impl Head {
    /// The bits for the number of bytes in the cell, and for the place of the bytes.
    const LENGTH: u32 = 48;
    const PLACE: u32 = 54;

    /// The head `word`, if it has that form.
    #[inline(always)]
    pub fn new(word: u64) -> Option<Self> {
        let head = Self(word);
        // In most heads the place is zero, which means that the bytes lie in the cell.
        let of_inline = (word & ((1 << BOUNDED) - 1)) >> Self::LENGTH <= INLINE as u64;
        (of_inline || (head.place() != 0 && head.length() == 0)).then_some(head)
    }

    /// The head that [`word`](Self::word) returned as `word`.
    #[inline(always)]
    pub fn from_word(word: u64) -> Self {
        debug_assert!(Self::new(word).is_some());
        Self(word)
    }

    /// The head as a word, which [`from_word`](Self::from_word) turns back into the head.
    #[inline(always)]
    pub fn word(self) -> u64 {
        self.0
    }

    /// Where the successor of the message with the head `word` lies. Every word has an answer.
    #[inline(always)]
    pub(crate) fn advance_of(word: u64) -> Advance {
        Advance::of((word >> ADVANCE) as u32)
    }

    /// Upper bound on the predecessors that were untaken when the message was posted.
    #[inline(always)]
    pub fn behind(self) -> u32 {
        match (self.0 >> BEHIND) as u32 & MANY {
            MANY => u32::MAX,
            twos => 2 * twos,
        }
    }

    /// The slot and the kind of the message.
    #[inline(always)]
    pub fn ids(self) -> Ids {
        Ids((self.0 >> 16) as u32)
    }

    /// The slot of the call.
    #[inline(always)]
    pub fn slot(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The kind: of a request its procedure, of a reply its outcome.
    #[inline(always)]
    pub fn what(self) -> u16 {
        (self.0 >> 32) as u16
    }

    #[inline(always)]
    fn place(self) -> u32 {
        (self.0 >> Self::PLACE) as u32 & 3
    }

    /// How many bytes lie in the cell.
    #[inline(always)]
    fn length(self) -> u32 {
        (self.0 >> Self::LENGTH) as u32 & 0x3f
    }

    /// If this is a message of kind `what` with its bytes in the cell: how many.
    #[inline(always)]
    pub fn inline_len(self, what: u16) -> Option<usize> {
        let kind = 0xffff << 32 | 3 << Self::PLACE;
        (self.0 & kind == u64::from(what) << 32).then(|| self.length() as usize)
    }

    /// If this is a request with its bytes in the cell, for a call that is not bounded: how many,
    /// with the tag.
    #[inline(always)]
    pub fn inline_request(self) -> Option<usize> {
        (self.0 & (3 << Self::PLACE | 1 << BOUNDED) == 0).then(|| self.length() as usize)
    }

    /// If this is a request with its bytes in the A-stack, for a call that is not bounded: how
    /// many, as `payload` says.
    #[inline(always)]
    pub fn stacked_request(self, payload: &Payload) -> Option<usize> {
        let stacked =
            self.0 & (3 << Self::PLACE | 1 << BOUNDED) == (PayloadPlace::Stack as u64) << Self::PLACE;
        stacked.then(|| (payload.word(0) >> Tag::BITS) as usize)
    }

    /// Whether this is a message of kind `what` with its bytes in the A-stack. The payload says how
    /// many.
    #[inline(always)]
    pub fn is_stacked(self, what: u16) -> bool {
        let kind = 0xffff << 32 | 3 << Self::PLACE;
        self.0 & kind == u64::from(what) << 32 | (PayloadPlace::Stack as u64) << Self::PLACE
    }

    /// How many words of the payload are stored in a ring: from one to [`Payload::WORDS`].
    #[inline(always)]
    pub(crate) fn used(self) -> usize {
        // If the bytes lie elsewhere the length is zero, and the first word of the payload says how
        // many there are.
        ((self.length() as usize + 7) >> 3).max(1)
    }

    /// How many bytes of arguments or results the cell itself carries.
    #[inline(always)]
    pub(crate) fn crossing(self) -> usize {
        self.length() as usize
    }
}

/// What identifies a head with this sequence number.
#[inline]
fn mark(sequence: u32) -> u64 {
    u64::from(sequence as u16) | PRESENT
}

/// Whether `word` is the head of the cell with this sequence number.
#[inline]
pub(crate) fn is_head(word: u64, sequence: u32) -> bool {
    word & (PRESENT | 0xffff) == mark(sequence)
}

/// The sequence number of the head `word`. `None` if `word` is no head.
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
            let (head, first) = cell.head(u32::MAX, 0, Advance::SMALL);
            let mut payload = Payload::new();
            payload.set_word(0, first);
            let read = Cell::from_parts(Head::new(head).unwrap(), payload);
            assert_eq!((read.ids, read.place), (cell.ids, cell.place));
            assert_eq!(
                (read.length, read.bounded, first),
                (cell.length, cell.bounded, cell.head(0, 7, Advance::FULL).1)
            );
            assert!(is_head(head, u32::MAX) && !is_head(head, 0) && !is_head(0, 0));
        }
    }

    #[test]
    fn a_malformed_head_is_refused() {
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
