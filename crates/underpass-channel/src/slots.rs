//! The slots of a channel: the client's private record of the calls under way.

use crate::layout::SLOTS;
use underpass_seam::atomic::{AtomicU8, AtomicU32, Ordering};

/// Leases slots, each with its A-stack. The slot that was given back last is leased first, because
/// its A-stack is in the cache. Callers hold the lock of the client's end.
///
/// A slot that was never leased is leased only if all others are. So no more A-stacks are ever
/// touched than there were calls at once, and the untouched ones take no memory. Private to the
/// client.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Slots {
    /// How many slots are leased. It shares a cache line with the entries of `order` that are
    /// leased first.
    leased: AtomicU32,
    /// The free slots, in the order in which they will be leased, from index `leased` on. Entries
    /// before that have no meaning.
    order: [AtomicU8; SLOTS as usize],
}

/// A leased slot: the right to have one call under way, and to write the slot's A-stack until the
/// call is posted.
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
        Self { leased: AtomicU32::new(0), order: std::array::from_fn(|n| AtomicU8::new(n as u8)) }
    }
}

impl Slots {
    /// Leases the slot that was given back last. `None` if `most` slots or all slots are leased.
    #[inline]
    pub fn lease(&self, most: u32) -> Option<Slot> {
        // Relaxed, here and below: the lock orders them.
        let leased = self.leased.load(Ordering::Relaxed);
        let next = self.order.get(leased as usize)?;
        if leased >= most {
            return None;
        }
        self.leased.store(leased + 1, Ordering::Relaxed);
        Some(Slot(u16::from(next.load(Ordering::Relaxed))))
    }

    /// Ends a lease.
    #[inline]
    pub fn give_back(&self, slot: Slot) {
        let left = self.leased.load(Ordering::Relaxed).wrapping_sub(1);
        // Always there: each `Slot` is leased, so `leased` was above 0.
        if let Some(place) = self.order.get(left as usize) {
            place.store(slot.0 as u8, Ordering::Relaxed);
            self.leased.store(left, Ordering::Relaxed);
        }
    }

    /// Ends the lease of an abandoned call, after its reply has come.
    pub fn reclaim(&self, number: u16) {
        self.give_back(Slot(number));
    }

    /// Whether the slot is not leased.
    pub fn is_free(&self, number: u16) -> bool {
        let leased = self.leased.load(Ordering::Relaxed) as usize;
        self.order.iter().skip(leased).any(|free| u16::from(free.load(Ordering::Relaxed)) == number)
    }

    /// The slots that are not leased, as bits. Callers hold the lock.
    pub fn free(&self) -> u64 {
        let leased = self.leased.load(Ordering::Relaxed) as usize;
        let free = self.order.iter().skip(leased);
        free.fold(0, |free, number| free | 1u64.wrapping_shl(number.load(Ordering::Relaxed).into()))
    }

    /// How many slots are leased now. Without the lock, a hint.
    #[inline]
    pub fn leased(&self) -> u32 {
        self.leased.load(Ordering::Relaxed)
    }
}

const _: () = assert!(SLOTS <= 1 << u8::BITS, "a slot's number is a byte");

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    fn lease(slots: &Slots) -> Slot {
        slots.lease(SLOTS).expect("one is free")
    }

    #[test]
    fn the_last_that_was_given_back_is_leased_first() {
        let slots = Slots::default();
        let [a, b, c] = [lease(&slots), lease(&slots), lease(&slots)];
        assert_eq!([a.number(), b.number(), c.number()], [0, 1, 2]);
        assert!([0, 1, 2].iter().all(|&number| !slots.is_free(number)) && slots.is_free(3));
        assert_eq!(slots.free(), u64::MAX << 3);
        slots.give_back(a);
        slots.give_back(c);
        assert_eq!([0, 1, 2].map(|number| slots.is_free(number)), [true, false, true]);
        slots.give_back(b);
        assert_eq!([1, 2, 0, 3].map(|_| lease(&slots).number()), [1, 2, 0, 3]);
    }

    #[test]
    fn no_more_slots_are_touched_than_are_leased_at_once() {
        let slots = Slots::default();
        for n in 0..1000 {
            let mut held: Vec<_> = (0..3).map(|_| lease(&slots)).collect();
            assert!(held.iter().all(|slot| slot.number() < 3));
            while !held.is_empty() {
                slots.give_back(held.swap_remove(n % held.len()));
            }
        }
        assert_eq!(slots.leased(), 0);
    }

    #[test]
    fn each_slot_is_leased_once_and_no_more_than_the_limit() {
        let slots = Slots::default();
        let held: Vec<_> = std::iter::from_fn(|| slots.lease(5)).collect();
        assert_eq!((held.len(), slots.lease(0), slots.leased()), (5, None, 5));
        let more: Vec<_> = std::iter::from_fn(|| slots.lease(u32::MAX)).collect();
        let numbers: std::collections::BTreeSet<_> = held.iter().chain(&more).map(Slot::number).collect();
        assert_eq!(numbers.into_iter().collect::<Vec<_>>(), (0..SLOTS as u16).collect::<Vec<_>>());
        for slot in held.into_iter().chain(more) {
            slots.give_back(slot);
        }
        assert_eq!((slots.leased(), slots.lease(1).is_some(), slots.lease(1)), (0, true, None));
    }
}
