//! Threads that any activation may take: one puts them in, everybody takes them out, first come,
//! first served.

use underpass_seam::StaticSlot;
use underpass_seam::atomic::{AtomicU32, Ordering};

/// A bounded ring. `tail` is its owner's; `head` is moved by whoever takes, by
/// compare-and-exchange.
///
/// A slot is written only while it is outside of `head..tail`, so who reads a slot that is
/// overwritten meanwhile finds that `head` has moved, and throws away what it read. That `head`
/// goes round 2^32 places meanwhile is ruled out by time alone: some ten seconds of nothing but
/// takes during one taker's three instructions; the runtime's takers aren't preempted by us.
pub struct Ring<T: 'static, const N: usize> {
    head: AtomicU32,
    tail: AtomicU32,
    /// Apart: who looks whether anything is in any of many rings finds that on few pages.
    slots: Box<[StaticSlot<T>; N]>,
}

impl<T, const N: usize> Default for Ring<T, N> {
    fn default() -> Self {
        const { assert!(N.is_power_of_two() && N < 1 << 31) };
        Self {
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            slots: Box::new(std::array::from_fn(|_| StaticSlot::new())),
        }
    }
}

impl<T, const N: usize> Ring<T, N> {
    /// Whether nothing is in it: a hint.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Relaxed: who acts on it takes, and looks properly then.
        self.head.load(Ordering::Relaxed) == self.tail.load(Ordering::Relaxed)
    }

    /// Puts `item` in; only its owner does.
    ///
    /// # Errors
    /// `item`, if the ring is full.
    #[inline]
    pub fn put(&self, item: &'static T) -> Result<(), &'static T> {
        // Relaxed: nobody else writes it.
        let tail = self.tail.load(Ordering::Relaxed);
        // SYNC with `head` compare_exchange in `take`: who took the slot's last item has read it.
        let head = self.head.load(Ordering::Acquire);
        if tail.wrapping_sub(head) as usize >= N {
            return Err(item);
        }
        self.slots[tail as usize % N].set(item);
        // SYNC with `tail` load in `take`: the slot.
        self.tail.store(tail.wrapping_add(1), Ordering::Release);
        Ok(())
    }

    /// Takes the item that has waited longest.
    #[inline]
    pub fn take(&self) -> Option<&'static T> {
        // SYNC with `head` compare_exchange below, by others: so that `tail` is not older than what
        // they saw.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            // SYNC with `tail` store in `put`: the slot.
            let tail = self.tail.load(Ordering::Acquire);
            if tail.wrapping_sub(head) as i32 <= 0 {
                return None;
            }
            let item = self.slots[head as usize % N].get();
            let next = head.wrapping_add(1);
            // SYNC with `head` load in `put`: our read of the slot comes before its next write.
            match self.head.compare_exchange(head, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return item,
                Err(now) => head = now,
            }
        }
    }
}
