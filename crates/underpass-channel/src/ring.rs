//! A ring of cache lines with one cell in each. Its two ends share the lines and nothing else.
//! Neither end ever reads a cursor of its peer; a head only says where the next cell lies.
//!
//! The proof is in `README.md`.

use crate::cell::{Cell, Head, is_head, sequence_of};
use crate::copy_counts;
use crate::payload::Payload;
use crate::ring_lines::RingLines;
use crate::ring_memory::{CacheLine, RingMemory};
use crate::window::{Advance, Window};
use std::sync::Arc;
use underpass_seam::atomic::{AtomicU64, Ordering};

/// How many lines ahead a poster prefetches the line that it will write.
const AHEAD: u32 = 2;

/// The position of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    /// How many cells lie before it, counted from 0 modulo 2³².
    cells: u32,
    /// Its line, numbered in the order of the full ring.
    line: u32,
}

impl Position {
    /// The position of the next cell.
    #[inline(always)]
    fn next(self, advance: Advance, mask: u32) -> Self {
        Self { cells: self.cells.wrapping_add(1), line: advance.after(self.line, mask) }
    }
}

/// A position in one word. It changes under the lock of its end. Other threads read it as a hint.
#[derive(Debug, Default)]
struct Cursor(AtomicU64);

impl Cursor {
    #[inline]
    fn get(&self) -> Position {
        // Relaxed, here and in `set`: the lock orders them.
        let word = self.0.load(Ordering::Relaxed);
        Position { cells: word as u32, line: (word >> 32) as u32 }
    }

    #[inline]
    fn set(&self, position: Position) {
        self.0.store(u64::from(position.cells) | u64::from(position.line) << 32, Ordering::Relaxed);
    }
}

impl<W: RingMemory> RingLines<W> {
    /// The line and the head of the cell at `position`, if that cell has come.
    #[inline(always)]
    fn find(&self, position: Position) -> Option<(&CacheLine, u64)> {
        let line = self.line(position.line);
        // SYNC with the head's store in `Sending::post`: the rest of the cell, and the A-stack that
        // it names.
        let word = line[0].load(Ordering::Acquire);
        is_head(word, position.cells.wrapping_add(1)).then_some((line, word))
    }
}

/// The end that posts.
#[derive(Debug)]
pub struct Sending<W> {
    lines: RingLines<W>,
    next: Cursor,
    window: Window,
}

impl<W: RingMemory> Sending<W> {
    /// The sending end of the ring of `lines` lines (a power of two) that begins at `first_word`.
    ///
    /// # Panics
    /// If `lines` is no power of two, or the memory ends before the lines do.
    pub fn new(words: Arc<W>, first_word: usize, lines: u32) -> Self {
        let lines = RingLines::new(words, first_word, lines);
        Self { window: Window::new(lines.mask), lines, next: Cursor::default() }
    }

    /// How many cells have been posted, modulo 2³². Without the lock it is a hint whether anything
    /// was posted since.
    pub fn position(&self) -> u32 {
        self.next.get().cells
    }

    /// Posts `cell`. `behind`: upper bound on its predecessors that have not been taken yet.
    /// Callers hold the lock of this end. The cell's call has a slot, so the ring has room (see the
    /// proof, *Room*).
    #[inline(always)]
    pub fn post(&self, cell: &Cell, behind: u32) {
        let (next, used, mask) = (self.next.get(), cell.used(), self.lines.mask);
        // A value above the number of lines means the same as that number: it exceeds the limit of
        // every smaller window.
        let behind = behind.min(mask + 1);
        let line = self.lines.line(next.line);
        let advance = self.window.advance(behind, mask);
        let (head, first) = cell.head(next.cells.wrapping_add(1), behind, advance);
        if used > 0 {
            // Relaxed, like those below: the head publishes it.
            line[1].store(first, Ordering::Relaxed);
        }
        for i in 1..used {
            line[1 + i].store(cell.payload.word(i), Ordering::Relaxed);
        }
        copy_counts::into_region(cell.crossing());
        // SYNC with the head's load in `RingLines::find`: the rest of the cell, and the A-stack
        // that it names.
        line[0].store(head, Ordering::Release);
        W::demote(line);
        self.next.set(next.next(advance, mask));
        self.window.posted(behind, next.cells.wrapping_add(1), mask);
        if advance == Advance::FULL {
            // In a smaller window the line is still in the cache of its last reader, and a prefetch
            // would only take it away.
            W::prefetch_for_write(self.lines.line(next.line.wrapping_add(AHEAD)));
        }
    }
}

impl<W: RingMemory> Sending<W> {
    /// Whether the receiver had not taken the last request of `slot` when it had taken `taken`
    /// requests. The call of `slot` must be under way, so that nobody else posts for the slot.
    /// `false` if the cell is no longer in the ring.
    ///
    /// It reads the whole ring, so it is for the end of a call and not for the hot path.
    pub fn is_untaken(&self, slot: u16, taken: u32) -> bool {
        (0..=self.lines.mask).any(|line| {
            // Relaxed: the caller posted it, or another thread did under the same lock. The peer
            // may write anything there.
            let head = self.lines.line(line)[0].load(Ordering::Relaxed);
            // Sequence numbers compare modulo 2¹⁶ (serial-number arithmetic): half of them come
            // after `taken`. No head in the ring is older than the other half (`README.md`, R4).
            let is_behind = |sequence: u16| (1..1 << 15).contains(&sequence.wrapping_sub(taken as u16));
            sequence_of(head).is_some_and(is_behind)
                && Head::new(head).is_some_and(|head| head.slot() == slot)
        })
    }
}

/// The end that takes cells in the order in which they were posted.
#[derive(Debug)]
pub struct Receiving<W> {
    lines: RingLines<W>,
    next: Cursor,
}

impl<W: RingMemory> Receiving<W> {
    /// The receiving end of the ring of `lines` lines (a power of two) that begins at `first_word`.
    ///
    /// # Panics
    /// If `lines` is no power of two, or the memory ends before the lines do.
    pub fn new(words: Arc<W>, first_word: usize, lines: u32) -> Self {
        Self { lines: RingLines::new(words, first_word, lines), next: Cursor::default() }
    }

    /// Whether a cell has come. Certain under the lock, a hint without it.
    #[inline]
    pub fn pending(&self) -> bool {
        self.lines.find(self.next.get()).is_some()
    }

    /// Whether the next cell after `peeked` has come.
    #[inline(always)]
    pub fn pending_behind(&self, peeked: &PeekedCell<'_>) -> bool {
        self.lines.find(peeked.behind).is_some()
    }

    /// How many cells have been taken, modulo 2³². Without the lock it is a hint whether anything
    /// was taken since.
    pub fn position(&self) -> u32 {
        self.next.get().cells
    }

    /// Whether at least two cells seem to have come. A hint.
    pub fn backlog(&self) -> bool {
        let next = self.next.get();
        let second = |(_, word)| next.next(Head::advance_of(word), self.lines.mask);
        self.lines.find(next).map(second).is_some_and(|second| self.lines.find(second).is_some())
    }

    /// The next cell, if one has come. It stays in the ring until [`consume`](Self::consume).
    /// Prefetches the line of the cell after it. Callers of this function and those below hold the
    /// lock of this end.
    ///
    /// # Errors
    /// The cell is malformed. The caller has to close the binding.
    #[inline(always)]
    pub fn peek(&self) -> Result<Option<PeekedCell<'_>>, Malformed> {
        let next = self.next.get();
        match self.lines.find(next) {
            None => Ok(None),
            Some((line, word)) => {
                let behind = next.next(Head::advance_of(word), self.lines.mask);
                W::prefetch_for_read(self.lines.line(behind.line));
                Ok(Some(PeekedCell { head: Head::new(word).ok_or(Malformed)?, line, behind }))
            }
        }
    }

    /// Takes the cell that [`peek`](Self::peek) returned out of the ring.
    #[inline(always)]
    pub fn consume(&self, peeked: &PeekedCell<'_>) {
        copy_counts::out_of_region(peeked.head.crossing());
        self.next.set(peeked.behind);
    }

    /// Takes the next cell, if one has come: copies its payload once, into `payload`, and returns
    /// its head.
    ///
    /// # Errors
    /// As [`peek`](Self::peek).
    #[inline(always)]
    pub fn take(&self, payload: &mut Payload) -> Result<Option<Head>, Malformed> {
        let Some(peeked) = self.peek()? else { return Ok(None) };
        peeked.words(|i, word| payload.set_word(i, word));
        self.consume(&peeked);
        Ok(Some(peeked.head))
    }
}

/// A cell that has come and still lies in its line.
#[derive(Clone, Copy, Debug)]
pub struct PeekedCell<'a> {
    /// A private copy of its head, read once.
    pub head: Head,
    line: &'a CacheLine,
    /// The position of the next cell.
    behind: Position,
}

impl PeekedCell<'_> {
    /// Calls `see` with the index and the value of each word of the payload. Each word is read
    /// once. The first word is passed even if the payload is empty.
    #[inline(always)]
    pub fn words(&self, mut see: impl FnMut(usize, u64)) {
        let used = self.head.used();
        for (i, word) in self.line[1..].iter().enumerate() {
            // Relaxed: ordered by the acquire of the head.
            see(i, word.load(Ordering::Relaxed));
            if i + 1 >= used {
                break;
            }
        }
    }
}

/// A cell as no honest peer writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;
    use crate::cell::{INLINE, PayloadPlace};
    use crate::layout::LINE_WORDS;
    use crate::ring_memory::HeapMemory;
    use std::sync::Arc;

    fn ring(lines: u32) -> (Sending<HeapMemory>, Receiving<HeapMemory>) {
        let words = Arc::new(HeapMemory::new(lines as usize * LINE_WORDS));
        (Sending::new(words.clone(), 0, lines), Receiving::new(words, 0, lines))
    }

    fn next(receiving: &Receiving<HeapMemory>) -> Option<Cell> {
        let mut payload = Payload::new();
        receiving.take(&mut payload).unwrap().map(|head| Cell::from_parts(head, payload))
    }

    #[test]
    fn a_cell_is_found_behind_those_that_were_taken() {
        // Many rounds with cells of all lengths, so that old payloads lie behind new ones. In small
        // windows, far older cells lie beside them.
        for lines in [4, 128] {
            let (sending, receiving) = ring(lines);
            for n in 0..70_000u32 {
                let slot = (n % 3) as u16;
                let bytes = [0xff; INLINE];
                sending.post(&Cell::inline(slot, 1, &bytes[..n as usize * 7 % (INLINE + 1)]).unwrap(), 0);
                let taken = receiving.position();
                assert!(sending.is_untaken(slot, taken), "{n}");
                assert!(!sending.is_untaken(slot, taken.wrapping_add(1)), "{n}");
                assert!(!sending.is_untaken((slot + 1) % 3, taken), "{n}");
                next(&receiving).unwrap();
            }
            assert!(!sending.is_untaken(3, 0));
        }
    }

    #[test]
    fn cells_of_all_lengths_arrive_in_order_round_and_round() {
        let (sending, receiving) = ring(4);
        assert_eq!(next(&receiving), None);
        for i in 0..10_000usize {
            let bytes = [i as u8 | 1; INLINE];
            let cell = match i * i % 7 {
                6 => Cell { length: i as u32 % 56, place: PayloadPlace::Stack, ..Cell::new(1, 2) },
                _ => Cell::inline(i as u16 % 4, i as u16, &bytes[..i * 31 % (INLINE + 1)]).unwrap(),
            };
            // Two slots for each ring of four lines, so two cells under way.
            sending.post(&cell, 0);
            sending.post(&cell, 1);
            assert!(receiving.pending() && receiving.backlog());
            assert_eq!(next(&receiving).unwrap().bytes(), cell.bytes());
            assert!(receiving.pending() && !receiving.backlog());
            let taken = next(&receiving).unwrap();
            assert_eq!((taken.length, taken.what(), taken.place), (cell.length, cell.what(), cell.place));
            assert!(!receiving.pending());
        }
    }

    #[test]
    fn counts_wrap() {
        let (sending, receiving) = ring(128);
        let near = Position { cells: u32::MAX - 9, line: 3 };
        sending.next.set(near);
        receiving.next.set(near);
        for what in 0..100_000u32 {
            sending.post(&Cell::new(0, what as u16), 0);
            assert_eq!(next(&receiving).unwrap().what(), what as u16);
        }
    }

    /// Posts and takes messages, and returns how many lines the last `window` of them used. Message
    /// `n` is posted with `under_way(n)` untaken predecessors; the poster is told that there may
    /// be `more` in addition.
    fn lines_used(lines: u32, cells: u32, window: u32, under_way: impl Fn(u32) -> u32, more: u32) -> usize {
        let (sending, receiving) = ring(lines);
        let mut used = std::collections::BTreeMap::new();
        let mut taken = 0;
        for n in 0..cells {
            let behind = under_way(n).min(n - taken);
            while n - taken > behind {
                assert_eq!(next(&receiving).map(|cell| cell.what()), Some(taken as u16), "{n}");
                taken += 1;
            }
            assert!(n > taken || !receiving.pending(), "an old head was taken for a new one, {n}");
            used.insert(sending.next.get().line, n);
            sending.post(&Cell::inline(0, n as u16, &n.to_le_bytes()).unwrap(), behind.saturating_add(more));
        }
        used.values().filter(|&&n| n >= cells - window).count()
    }

    #[test]
    fn few_messages_use_few_lines() {
        // 90,000 is more than the number of sequence numbers, and ends between two passes over the
        // full ring.
        for (behind, lines) in [(0, 8), (6, 8), (7, 32), (30, 32), (31, 128), (64, 128)] {
            assert_eq!(lines_used(128, 90_000, 1_000, |_| behind, 0), lines, "{behind}");
        }
    }

    #[test]
    fn no_message_is_overwritten_whatever_is_under_way() {
        let hash = |n: u32| n.wrapping_mul(0x9e37_79b9) >> 20;
        for lines in [2, 4, 8, 16, 32, 64, 128] {
            let most = lines / 2;
            // Phases of many lengths, each with its own number of messages under way; then all of
            // them mixed.
            for phase in [1, 2, 3, 5, 8, 30, 129, 1_000, 20_000] {
                for more in [0, 1, 5, u32::MAX] {
                    lines_used(lines, 50_000, 0, |n| hash(n / phase) % (most + 1), more);
                    lines_used(lines, 50_000, 0, |n| if n / phase % 2 == 0 { 0 } else { most }, more);
                }
            }
            lines_used(
                lines,
                200_000,
                0,
                |n| if n % 40_000 == 39_999 { most } else { hash(n) % 3 % (most + 1) },
                0,
            );
        }
    }

    #[test]
    fn a_malformed_cell_is_an_error() {
        for head in [1 | 1 << 63 | 57 << 48, 1 | 1 << 63 | 1 << 48 | 1 << 54] {
            let words = Arc::new(HeapMemory::new(4 * LINE_WORDS));
            let receiving = Receiving::new(words.clone(), 0, 4);
            words.word(0).store(head, Ordering::Relaxed);
            assert_eq!(receiving.take(&mut Payload::new()), Err(Malformed));
        }
    }
}
