//! A ring of lines, a cell in each. Its two ends share the lines and nothing else: no cursor is
//! ever read from the peer, which only says which way the next line lies.
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

/// How many lines ahead a poster asks for the line that it will write.
const AHEAD: u32 = 2;

/// Which cell comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    /// How many lie before it, counted from 0 modulo 2³².
    cells: u32,
    /// On which line it lies, counted in the order of a whole lap.
    line: u32,
}

impl Position {
    /// The one behind it.
    #[inline(always)]
    fn next(self, advance: Advance, mask: u32) -> Self {
        Self { cells: self.cells.wrapping_add(1), line: advance.after(self.line, mask) }
    }
}

/// A position, in one piece. It changes under the lock that guards its end; others read it as a
/// hint.
#[derive(Debug, Default)]
struct Cursor(AtomicU64);

impl Cursor {
    #[inline]
    fn get(&self) -> Position {
        // Relaxed, both: the lock orders them.
        let word = self.0.load(Ordering::Relaxed);
        Position { cells: word as u32, line: (word >> 32) as u32 }
    }

    #[inline]
    fn set(&self, position: Position) {
        self.0.store(u64::from(position.cells) | u64::from(position.line) << 32, Ordering::Relaxed);
    }
}

impl<W: RingMemory> RingLines<W> {
    /// The line of the cell at `position` and its head, if it has come.
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

    /// How many cells have been posted, modulo 2³²: a hint, for who asks whether anything was
    /// since.
    pub fn position(&self) -> u32 {
        self.next.get().cells
    }

    /// Posts `cell`, of whose predecessors the last `behind`, at the most, have not been taken. One
    /// at a time: callers have a lock. The cell's call has a slot (see the proof, *Room*), so there
    /// is room.
    #[inline(always)]
    pub fn post(&self, cell: &Cell, behind: u32) {
        let (next, used, mask) = (self.next.get(), cell.used(), self.lines.mask);
        // More than there are lines: all the same, and less than a whole lap has room for.
        let behind = behind.min(mask + 1);
        let line = self.lines.line(next.line);
        let advance = self.window.advance(behind, mask);
        let (head, first) = cell.head(next.cells.wrapping_add(1), behind, advance);
        if used > 0 {
            // Relaxed, like the next: published by the head.
            line[1].store(first, Ordering::Relaxed);
        }
        for i in 1..used {
            line[1 + i].store(cell.payload.word(i), Ordering::Relaxed);
        }
        copy_counts::into_region(cell.crossing());
        // SYNC with the head's load in `RingLines::find`: the rest of the cell, and the A-stack that it
        // names.
        line[0].store(head, Ordering::Release);
        W::demote(line);
        self.next.set(next.next(advance, mask));
        self.window.posted(behind, next.cells.wrapping_add(1), mask);
        if advance == Advance::Full {
            // In a shorter lap its last reader has it still, and would only take it back.
            W::prefetch_for_write(self.lines.line(next.line.wrapping_add(AHEAD)));
        }
    }
}

impl<W: RingMemory> Sending<W> {
    /// Whether the last request of `slot` lies behind the first `taken` ones, so that the receiver
    /// had not taken it when it had taken so many. For a slot whose call is under way, which nobody
    /// else posts for; no if the cell can't be found any more.
    ///
    /// Reads the whole ring: for the end of a call, not for its way.
    pub fn is_untaken(&self, slot: u16, taken: u32) -> bool {
        (0..=self.lines.mask).any(|line| {
            // Relaxed: the caller's own post, or one under the same lock; and whoever else writes
            // there may write anything.
            let head = self.lines.line(line)[0].load(Ordering::Relaxed);
            // Behind are the half of all sequences that come next: older heads than the other half
            // there are none (`README.md`, L4).
            let is_behind = |sequence: u16| (1..1 << 15).contains(&sequence.wrapping_sub(taken as u16));
            sequence_of(head).is_some_and(is_behind)
                && Head::new(head).is_some_and(|head| head.slot() == slot)
        })
    }
}

/// The end that takes, in the order of posting.
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

    /// Whether a cell has come: under the lock. Without it, a hint for whoever polls.
    #[inline]
    pub fn pending(&self) -> bool {
        self.lines.find(self.next.get()).is_some()
    }

    /// Whether another has come behind this one.
    #[inline(always)]
    pub fn pending_behind(&self, peeked: &PeekedCell<'_>) -> bool {
        self.lines.find(peeked.behind).is_some()
    }

    /// How many cells have been taken, modulo 2³²: a hint, for who asks whether anything has come
    /// since.
    pub fn position(&self) -> u32 {
        self.next.get().cells
    }

    /// Whether a second cell seems to have come behind the first: a hint.
    pub fn backlog(&self) -> bool {
        let next = self.next.get();
        let second = |(_, word)| next.next(Head::advance_of(word), self.lines.mask);
        self.lines.find(next).map(second).is_some_and(|second| self.lines.find(second).is_some())
    }

    /// The next cell, if one has come; an error if no honest peer writes such a cell. Has the
    /// processor fetch the one behind it. One at a time, as all that follows: callers have a lock.
    ///
    /// # Errors
    /// The cell has no meaning. The binding is to be closed.
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

    /// The cell that was [`coming`](Self::coming) has been taken.
    #[inline(always)]
    pub fn consume(&self, peeked: &PeekedCell<'_>) {
        copy_counts::out_of_region(peeked.head.crossing());
        self.next.set(peeked.behind);
    }

    /// Takes the next cell: copies its payload out into `payload`, once, and gives its head, if one
    /// had come.
    ///
    /// # Errors
    /// As [`coming`](Self::coming).
    #[inline(always)]
    pub fn take(&self, payload: &mut Payload) -> Result<Option<Head>, Malformed> {
        let Some(peeked) = self.peek()? else { return Ok(None) };
        peeked.words(|i, word| payload.set_word(i, word));
        self.consume(&peeked);
        Ok(Some(peeked.head))
    }
}

/// A cell that has come and lies in its line still.
#[derive(Clone, Copy, Debug)]
pub struct PeekedCell<'a> {
    /// Copied once.
    pub head: Head,
    line: &'a CacheLine,
    /// The one behind it.
    behind: Position,
}

impl PeekedCell<'_> {
    /// Shows the words of its payload, each copied once, and how many lie before each; the first
    /// also where it has none.
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

/// A cell that no honest peer writes.
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
        receiving.take(&mut payload).unwrap().map(|head| Cell::came(head, payload))
    }

    #[test]
    fn a_cell_is_found_behind_those_that_were_taken() {
        // Round and round, with cells of all lengths, so that old ones lie behind new ones; and in
        // short laps, so that far older ones lie beside them.
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
            // Two slots: as many as half the lines, and so many cells on the way.
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

    /// Posts and takes, with as many on the way as `on_the_way` says for each, of which the poster
    /// believes that they may be `more`; gives how many lines were used for the last `window`.
    fn goes_round(lines: u32, cells: u32, window: u32, on_the_way: impl Fn(u32) -> u32, more: u32) -> usize {
        let (sending, receiving) = ring(lines);
        let mut used = std::collections::BTreeMap::new();
        let mut taken = 0;
        for n in 0..cells {
            let behind = on_the_way(n).min(n - taken);
            while n - taken > behind {
                assert_eq!(next(&receiving).map(|cell| cell.what()), Some(taken as u16), "{n}");
                taken += 1;
            }
            assert!(n > taken || !receiving.pending(), "a head of long ago, {n}");
            used.insert(sending.next.get().line, n);
            sending.post(&Cell::inline(0, n as u16, &n.to_le_bytes()).unwrap(), behind.saturating_add(more));
        }
        used.values().filter(|&&n| n >= cells - window).count()
    }

    #[test]
    fn few_messages_go_round_few_lines() {
        // 90,000 are more than there are sequences, and end between two laps of all lines.
        for (behind, lines) in [(0, 8), (6, 8), (7, 32), (30, 32), (31, 128), (64, 128)] {
            assert_eq!(goes_round(128, 90_000, 1_000, |_| behind, 0), lines, "{behind}");
        }
    }

    #[test]
    fn no_message_is_written_over_whatever_is_on_the_way() {
        let hash = |n: u32| n.wrapping_mul(0x9e37_79b9) >> 20;
        for lines in [2, 4, 8, 16, 32, 64, 128] {
            let most = lines / 2;
            // Many phases of some length each, in which as many as in no other are on the way; and
            // all of them mixed.
            for phase in [1, 2, 3, 5, 8, 30, 129, 1_000, 20_000] {
                for more in [0, 1, 5, u32::MAX] {
                    goes_round(lines, 50_000, 0, |n| hash(n / phase) % (most + 1), more);
                    goes_round(lines, 50_000, 0, |n| if n / phase % 2 == 0 { 0 } else { most }, more);
                }
            }
            goes_round(
                lines,
                200_000,
                0,
                |n| if n % 40_000 == 39_999 { most } else { hash(n) % 3 % (most + 1) },
                0,
            );
        }
    }

    #[test]
    fn a_damaged_cell_is_told() {
        for head in [1 | 1 << 63 | 57 << 48, 1 | 1 << 63 | 1 << 48 | 1 << 54] {
            let words = Arc::new(HeapMemory::new(4 * LINE_WORDS));
            let receiving = Receiving::new(words.clone(), 0, 4);
            words.word(0).store(head, Ordering::Relaxed);
            assert_eq!(receiving.take(&mut Payload::new()), Err(Malformed));
        }
    }
}
