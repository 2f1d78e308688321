//! The slots of a binding: which calls are under way, as the client alone knows it.

use crate::layout::CELLS;
use underpass_seam::atomic::{AtomicU64, Ordering};

/// Leases slots, the warmest first: low numbers are used again and again while few calls are under way.
///
/// A set bit is a free slot. Private to the client.
#[derive(Debug)]
pub struct Slots {
    free: AtomicU64,
}

/// A leased slot: the right to have one call under way, and to its A-stack until it is posted.
#[derive(Debug, PartialEq, Eq)]
pub struct Slot(u16);

impl Slot {
    /// Its number, below [`CELLS`].
    #[inline]
    pub fn number(&self) -> u16 {
        self.0
    }
}

impl Default for Slots {
    fn default() -> Self {
        Self::new(CELLS)
    }
}

impl Slots {
    /// `count` free ones.
    ///
    /// # Panics
    /// If there are to be more than [`CELLS`], or none.
    pub fn new(count: u32) -> Self {
        assert!((1..=CELLS).contains(&count), "a binding has 1 to {CELLS} slots");
        Self { free: AtomicU64::new(u64::MAX >> (CELLS - count)) }
    }

    /// Leases the lowest free slot; nothing if all are leased.
    #[inline]
    pub fn lease(&self) -> Option<Slot> {
        // SeqCst: a waiter that finds none is ordered before or after a give-back (see `give_back`).
        let mut free = self.free.load(Ordering::SeqCst);
        while free != 0 {
            // SYNC with `free` fetch_or in `give_back`: the last call in this slot is over, its reply taken.
            match self.free.compare_exchange_weak(
                free,
                free & (free - 1),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(Slot(free.trailing_zeros() as u16)),
                Err(found) => free = found,
            }
        }
        None
    }

    /// Ends a lease.
    #[inline]
    pub fn give_back(&self, slot: Slot) {
        // SYNC with `free` compare_exchange in `lease`: the call in this slot is over, its reply taken.
        // SeqCst: who gives back then looks for waiters, and who waits said so before it looked for a free slot.
        self.free.fetch_or(1 << slot.0, Ordering::SeqCst);
    }

    /// Ends the lease of a call that was abandoned, whose reply has come after all.
    pub fn reclaim(&self, number: u16) {
        self.give_back(Slot(number));
    }

    /// Slots that are leased at this moment.
    pub fn leased(&self, of: u32) -> u32 {
        of - self.free.load(Ordering::Relaxed).count_ones()
    }
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_is_leased_first_and_again() {
        let slots = Slots::new(2);
        let (a, b) = (slots.lease().unwrap(), slots.lease().unwrap());
        assert_eq!((a.number(), b.number(), slots.lease()), (0, 1, None));
        assert_eq!(slots.leased(2), 2);
        slots.give_back(a);
        assert_eq!(slots.lease().unwrap().number(), 0);
    }
}
