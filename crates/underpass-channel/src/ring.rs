//! A ring of cells. Its two ends share the cells and nothing else: no cursor is ever read from the peer.

use crate::cell::Cell;
use crate::layout::CELL_WORDS;
use crate::words::Words;
use underpass_seam::atomic::{AtomicU32, Ordering};
use underpass_seam::{Held, TryLock};

/// How many cells ahead a poster asks for the line that it will write.
const AHEAD: u32 = 8;

/// Where the cell of `position` begins, in words from the ring's first.
///
/// Neighbours in time lie far apart, in no pattern that a prefetcher knows: otherwise the taker's prefetcher fetches cells
/// before they are written, and the poster waits for each line twice.
#[inline]
fn place(position: u32, mask: u32) -> usize {
    (position.wrapping_mul(37) & mask) as usize * CELL_WORDS
}

/// The end that posts. Any of the domain's threads may, at once.
///
/// `next` is private to this domain. The cell of a claimed position belongs to who claimed it until its sequence
/// is stored.
#[derive(Debug)]
pub struct Sending<W> {
    words: W,
    first_word: usize,
    mask: u32,
    next: AtomicU32,
}

impl<W: Words> Sending<W> {
    /// The sending end of the ring of `cells` cells (a power of two) that begins at `first_word`.
    ///
    /// # Panics
    /// If `cells` is no power of two.
    pub fn new(words: W, first_word: usize, cells: u32) -> Self {
        assert!(cells.is_power_of_two(), "positions wrap by a mask");
        Self { words, first_word, mask: cells - 1, next: AtomicU32::new(0) }
    }

    /// Posts `cell`. The caller holds a slot (see the proof, *Room*), so there is room.
    #[inline]
    pub fn post(&self, cell: &Cell) {
        // Relaxed: the number only has to be ours; what it guards is published by the sequence below.
        let position = self.next.fetch_add(1, Ordering::Relaxed);
        let at = self.first_word + place(position, self.mask);
        let [first, second] = cell.head(position.wrapping_add(1));
        for (i, word) in cell.payload[..cell.used()].iter().enumerate() {
            // Relaxed, like the next: published by the sequence.
            self.words.word(at + 2 + i).store(*word, Ordering::Relaxed);
        }
        self.words.word(at + 1).store(second, Ordering::Relaxed);
        // SYNC with word 0 load in `Receiving::take`: the rest of the cell, and the A-stack that it names.
        self.words.word(at).store(first, Ordering::Release);
        self.words.want_to_write(self.first_word + place(position.wrapping_add(AHEAD), self.mask));
    }
}

/// The end that takes, in the order of posting. Any of the domain's threads may, one at a time.
///
/// `next` is private to this domain and changes only under the lock; others read it as a hint.
#[derive(Debug)]
pub struct Receiving<W> {
    words: W,
    first_word: usize,
    mask: u32,
    next: AtomicU32,
    lock: TryLock<()>,
}

impl<W: Words> Receiving<W> {
    /// The receiving end of the ring of `cells` cells (a power of two) that begins at `first_word`.
    ///
    /// # Panics
    /// If `cells` is no power of two.
    pub fn new(words: W, first_word: usize, cells: u32) -> Self {
        assert!(cells.is_power_of_two(), "positions wrap by a mask");
        Self { words, first_word, mask: cells - 1, next: AtomicU32::new(0), lock: TryLock::new(()) }
    }

    #[inline]
    fn at(&self, position: u32) -> usize {
        self.first_word + place(position, self.mask)
    }

    /// Whether a cell seems to have come: a hint, for whoever polls.
    #[inline]
    pub fn pending(&self) -> bool {
        // Relaxed, both: `take` looks again under the lock and synchronizes.
        let next = self.next.load(Ordering::Relaxed);
        self.words.word(self.at(next)).load(Ordering::Relaxed) as u32 == next.wrapping_add(1)
    }

    /// How many cells have been taken, modulo 2³²: a hint, for who asks whether anything has come since.
    pub fn position(&self) -> u32 {
        // Relaxed: see above.
        self.next.load(Ordering::Relaxed)
    }

    /// Whether a second cell seems to have come behind the first: a hint.
    pub fn backlog(&self) -> bool {
        let second = self.next.load(Ordering::Relaxed).wrapping_add(1);
        self.words.word(self.at(second)).load(Ordering::Relaxed) as u32 == second.wrapping_add(1)
    }

    /// The right to take cells, unless another thread has it.
    #[inline]
    pub fn try_lock(&self) -> Option<Taking<'_, W>> {
        Some(Taking { held: self.lock.try_lock()?, of: self })
    }
}

/// The right to take cells from a ring, until dropped.
#[derive(Debug)]
pub struct Taking<'a, W> {
    of: &'a Receiving<W>,
    // Last, so that it is let go of last.
    #[expect(dead_code, reason = "it is held, not read")]
    held: Held<'a, ()>,
}

impl<W: Words> Taking<'_, W> {
    /// The next cell, copied out once; nothing if none has come; an error if no honest peer writes such a cell.
    ///
    /// # Errors
    /// The cell's head has no meaning. The binding is to be closed.
    #[inline]
    pub fn take(&mut self) -> Result<Option<Cell>, Damaged> {
        let Receiving { words, next, .. } = self.of;
        // Relaxed: it changes under the lock, which we hold.
        let position = next.load(Ordering::Relaxed);
        let at = self.of.at(position);
        // SYNC with word 0 store in `Sending::post`: the rest of the cell, and the A-stack that it names.
        let first = words.word(at).load(Ordering::Acquire);
        if first as u32 != position.wrapping_add(1) {
            return Ok(None);
        }
        // Relaxed, like the next: ordered by the acquire above.
        let second = words.word(at + 1).load(Ordering::Relaxed);
        let mut cell = Cell::from_head([first, second]).ok_or(Damaged)?;
        for i in 0..cell.used() {
            cell.payload[i] = words.word(at + 2 + i).load(Ordering::Relaxed);
        }
        // Relaxed: the lock's release publishes it to the next taker.
        next.store(position.wrapping_add(1), Ordering::Relaxed);
        // The one after the next: the next is looked at in a moment anyway.
        words.want_to_read(self.of.at(position.wrapping_add(2)));
        Ok(Some(cell))
    }

    /// Whether [`take`](Self::take) would find nothing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.of.pending()
    }
}

/// A cell that no honest peer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;
    use crate::words::Boxed;
    use std::sync::Arc;

    fn ring(cells: u32) -> (Sending<Arc<Boxed>>, Receiving<Arc<Boxed>>) {
        let words = Arc::new(Boxed::new(cells as usize * CELL_WORDS));
        (Sending::new(words.clone(), 0, cells), Receiving::new(words, 0, cells))
    }

    #[test]
    fn cells_arrive_in_order_round_and_round() {
        let (sending, receiving) = ring(4);
        let mut taking = receiving.try_lock().unwrap();
        assert_eq!(taking.take(), Ok(None));
        for i in 0..100u16 {
            let cell = Cell::inline(i % 4, i, &i.to_le_bytes()).unwrap();
            sending.post(&cell);
            assert!(receiving.pending());
            assert_eq!(taking.take(), Ok(Some(cell)));
            assert!(!receiving.pending());
        }
    }

    #[test]
    fn a_position_wraps_at_32_bits() {
        let (sending, receiving) = ring(4);
        let mut taking = receiving.try_lock().unwrap();
        sending.next.store(u32::MAX - 1, Ordering::Relaxed);
        receiving.next.store(u32::MAX - 1, Ordering::Relaxed);
        for i in 0..8 {
            sending.post(&Cell::new(0, i));
            assert_eq!(taking.take().unwrap().unwrap().what, i);
        }
    }

    #[test]
    fn a_damaged_cell_is_told() {
        let words = Arc::new(Boxed::new(4 * CELL_WORDS));
        let receiving = Receiving::new(words.clone(), 0, 4);
        let mut taking = receiving.try_lock().unwrap();
        words.word(1).store(u64::MAX, Ordering::Relaxed);
        words.word(0).store(1, Ordering::Relaxed);
        assert_eq!(taking.take(), Err(Damaged));
    }
}
