//! The slots of a binding: which calls are under way, as the client alone knows it.

use crate::layout::SLOTS;
use underpass_seam::atomic::{AtomicU64, Ordering};

/// Leases slots, the warmest first: low numbers are used again and again while few calls are under way. One at a time: callers have a lock.
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
    /// Its number, below [`SLOTS`].
    #[inline]
    pub fn number(&self) -> u16 {
        self.0
    }
}

impl Default for Slots {
    fn default() -> Self {
        Self::new(SLOTS)
    }
}

impl Slots {
    /// `count` free ones.
    ///
    /// # Panics
    /// If there are to be more than [`SLOTS`], or none.
    pub fn new(count: u32) -> Self {
        assert!((1..=SLOTS).contains(&count), "a binding has 1 to {SLOTS} slots");
        Self { free: AtomicU64::new(u64::MAX >> (SLOTS - count)) }
    }

    /// Leases the lowest free slot; nothing if all are leased.
    #[inline]
    pub fn lease(&self) -> Option<Slot> {
        // Relaxed, here and below: the lock orders it.
        let free = self.free.load(Ordering::Relaxed);
        if free == 0 {
            return None;
        }
        self.free.store(free & (free - 1), Ordering::Relaxed);
        Some(Slot(free.trailing_zeros() as u16))
    }

    /// Ends a lease.
    #[inline]
    pub fn give_back(&self, slot: Slot) {
        self.free.store(self.free.load(Ordering::Relaxed) | 1 << slot.0, Ordering::Relaxed);
    }

    /// Ends the lease of a call that was abandoned, whose reply has come after all.
    pub fn reclaim(&self, number: u16) {
        self.give_back(Slot(number));
    }

    /// Slots that are leased at this moment; without the lock, a hint.
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
