//! A ring of lines, a cell in each. Its two ends share the lines and nothing else: no cursor is ever read from the peer.
//!
//! The proof is in `README.md`.

use crate::cell::{Cell, Head, is_head, sequence_of};
use crate::copied;
use crate::lines::Lines;
use crate::words::{Line, Words};
use std::sync::Arc;
use underpass_seam::atomic::{AtomicU32, Ordering};

/// How many lines ahead a poster asks for the line that it will write.
const AHEAD: u32 = 2;

/// How many cells lie before the next one, counted from 0 modulo 2³². It changes under the lock that guards its end; others read it as a hint.
#[derive(Debug, Default)]
struct Position(AtomicU32);

impl Position {
    #[inline]
    fn get(&self) -> u32 {
        // Relaxed, both: the lock orders them.
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, cells: u32) {
        self.0.store(cells, Ordering::Relaxed);
    }
}

impl<W: Words> Lines<W> {
    /// The line of the cell with so many before it and its head, if it has come.
    #[inline(always)]
    fn find(&self, cell: u32) -> Option<(&Line, u64)> {
        let line = self.line(cell);
        // SYNC with the head's store in `Sending::post`: the rest of the cell, and the A-stack that it names.
        let word = line[0].load(Ordering::Acquire);
        is_head(word, cell.wrapping_add(1)).then_some((line, word))
    }
}

/// The end that posts.
#[derive(Debug)]
pub struct Sending<W> {
    lines: Lines<W>,
    next: Position,
}

impl<W: Words> Sending<W> {
    /// The sending end of the ring of `lines` lines (a power of two) that begins at `first_word`.
    ///
    /// # Panics
    /// If `lines` is no power of two, or the memory ends before the lines do.
    pub fn new(words: Arc<W>, first_word: usize, lines: u32) -> Self {
        Self { lines: Lines::new(words, first_word, lines), next: Position::default() }
    }

    /// How many cells have been posted, modulo 2³²: a hint, for who asks whether anything was since.
    pub fn position(&self) -> u32 {
        self.next.get()
    }

    /// Posts `cell`. One at a time: callers have a lock. The cell's call has a slot (see the proof, *Room*), so there is room.
    #[inline(always)]
    pub fn post(&self, cell: &Cell) {
        let (next, used) = (self.next.get(), cell.used());
        let line = self.lines.line(next);
        let (head, first) = cell.head(next.wrapping_add(1));
        if used > 0 {
            // Relaxed, like the next: published by the head.
            line[1].store(first, Ordering::Relaxed);
        }
        for i in 1..used {
            line[1 + i].store(cell.payload.word(i), Ordering::Relaxed);
        }
        copied::into_region(cell.crossing());
        // SYNC with the head's load in `Lines::find`: the rest of the cell, and the A-stack that it names.
        line[0].store(head, Ordering::Release);
        W::send_on(line);
        self.next.set(next.wrapping_add(1));
        W::want_to_write(self.lines.line(next.wrapping_add(AHEAD)));
    }
}

impl<W: Words> Sending<W> {
    /// Whether the last request of `slot` lies behind the first `taken` ones, so that the receiver had not taken it when it had taken so many. For a slot whose
    /// call is under way, which nobody else posts for; no if the cell can't be found any more.
    ///
    /// Reads the whole ring: for the end of a call, not for its way.
    pub fn is_behind(&self, slot: u16, taken: u32) -> bool {
        (0..=self.lines.mask).any(|line| {
            // Relaxed: the caller's own post, or one under the same lock; and whoever else writes there may write anything.
            let head = self.lines.line(line)[0].load(Ordering::Relaxed);
            // So few cells lie in a ring that a half of all sequences is behind.
            let is_behind = |sequence: u16| (1..1 << 15).contains(&sequence.wrapping_sub(taken as u16));
            sequence_of(head).is_some_and(is_behind)
                && Head::new(head).is_some_and(|head| head.slot() == slot)
        })
    }
}

/// The end that takes, in the order of posting.
#[derive(Debug)]
pub struct Receiving<W> {
    lines: Lines<W>,
    next: Position,
}

impl<W: Words> Receiving<W> {
    /// The receiving end of the ring of `lines` lines (a power of two) that begins at `first_word`.
    ///
    /// # Panics
    /// If `lines` is no power of two, or the memory ends before the lines do.
    pub fn new(words: Arc<W>, first_word: usize, lines: u32) -> Self {
        Self { lines: Lines::new(words, first_word, lines), next: Position::default() }
    }

    /// Whether a cell has come: under the lock. Without it, a hint for whoever polls.
    #[inline]
    pub fn pending(&self) -> bool {
        self.lines.find(self.next.get()).is_some()
    }

    /// How many cells have been taken, modulo 2³²: a hint, for who asks whether anything has come since.
    pub fn position(&self) -> u32 {
        self.next.get()
    }

    /// Whether a second cell seems to have come behind the first: a hint.
    pub fn backlog(&self) -> bool {
        let next = self.next.get();
        self.lines.find(next).and_then(|_| self.lines.find(next.wrapping_add(1))).is_some()
    }

    /// The next cell, if one has come; an error if no honest peer writes such a cell. Has the processor fetch the one behind it. One at a time, as all that follows: callers have a lock.
    ///
    /// # Errors
    /// The cell has no meaning. The binding is to be closed.
    #[inline(always)]
    pub fn coming(&self) -> Result<Option<Coming<'_>>, Damaged> {
        match self.lines.find(self.next.get()) {
            None => Ok(None),
            Some((line, word)) => {
                W::want_to_read(self.lines.line(self.next.get().wrapping_add(1)));
                Ok(Some(Coming { head: Head::new(word).ok_or(Damaged)?, line }))
            }
        }
    }

    /// The cell that was [`coming`](Self::coming) has been taken.
    #[inline(always)]
    pub fn pass(&self, head: Head) {
        copied::out_of_region(head.crossing());
        self.next.set(self.next.get().wrapping_add(1));
    }

    /// Copies the next cell out into `cell`, which is new, once, and says whether one had come.
    ///
    /// # Errors
    /// As [`coming`](Self::coming).
    #[inline(always)]
    pub fn take(&self, cell: &mut Cell) -> Result<bool, Damaged> {
        let Some(coming) = self.coming()? else { return Ok(false) };
        cell.set(coming.head);
        coming.words(|i, word| cell.payload.set_word(i, word));
        cell.complete();
        self.pass(coming.head);
        Ok(true)
    }
}

/// A cell that has come and lies in its line still.
#[derive(Debug)]
pub struct Coming<'a> {
    /// Copied once.
    pub head: Head,
    line: &'a Line,
}

impl Coming<'_> {
    /// Shows the words of its payload, each copied once, and how many lie before each; the first also where it has none.
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
pub struct Damaged;

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;
    use crate::cell::{INLINE, Place};
    use crate::layout::LINE_WORDS;
    use crate::words::Boxed;
    use std::sync::Arc;

    fn ring(lines: u32) -> (Sending<Boxed>, Receiving<Boxed>) {
        let words = Arc::new(Boxed::new(lines as usize * LINE_WORDS));
        (Sending::new(words.clone(), 0, lines), Receiving::new(words, 0, lines))
    }

    fn next(receiving: &Receiving<Boxed>) -> Option<Cell> {
        let mut cell = Cell::new(0, 0);
        receiving.take(&mut cell).unwrap().then_some(cell)
    }

    #[test]
    fn a_cell_is_found_behind_those_that_were_taken() {
        let (sending, receiving) = ring(4);
        // Round and round, with cells of all lengths, so that old ones lie behind new ones.
        for n in 0..70_000u32 {
            let slot = (n % 3) as u16;
            let bytes = [0xff; INLINE];
            sending.post(&Cell::inline(slot, 1, &bytes[..n as usize * 7 % (INLINE + 1)]).unwrap());
            let taken = receiving.position();
            assert!(sending.is_behind(slot, taken), "{n}");
            assert!(!sending.is_behind(slot, taken.wrapping_add(1)), "{n}");
            assert!(!sending.is_behind((slot + 1) % 3, taken), "{n}");
            next(&receiving).unwrap();
        }
        assert!(!sending.is_behind(3, 0));
    }

    #[test]
    fn cells_of_all_lengths_arrive_in_order_round_and_round() {
        let (sending, receiving) = ring(4);
        assert_eq!(next(&receiving), None);
        for i in 0..10_000usize {
            let bytes = [i as u8 | 1; INLINE];
            let cell = match i * i % 7 {
                6 => Cell { length: i as u32 % 56, place: Place::Stack, ..Cell::new(1, 2) },
                _ => Cell::inline(i as u16 % 4, i as u16, &bytes[..i * 31 % (INLINE + 1)]).unwrap(),
            };
            // Two slots: as many as half the lines, and so many cells on the way.
            sending.post(&cell);
            sending.post(&cell);
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
        let (sending, receiving) = ring(4);
        let near = u32::MAX - 9;
        sending.next.set(near);
        receiving.next.set(near);
        for what in 0..100_000u32 {
            sending.post(&Cell::new(0, what as u16));
            assert_eq!(next(&receiving).unwrap().what(), what as u16);
        }
    }

    #[test]
    fn a_damaged_cell_is_told() {
        for head in [1 | 1 << 63 | 1 << 57, 1 | 1 << 63 | 1 << 60] {
            let words = Arc::new(Boxed::new(4 * LINE_WORDS));
            let receiving = Receiving::new(words.clone(), 0, 4);
            words.word(0).store(head, Ordering::Relaxed);
            assert_eq!(receiving.take(&mut Cell::new(0, 0)), Err(Damaged));
        }
    }
}
