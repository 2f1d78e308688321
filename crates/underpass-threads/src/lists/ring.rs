//! A bounded ring of threads that any activation may steal. Its owner puts them in; everybody takes
//! them out, first in, first out.

use underpass_seam::StaticSlot;
use underpass_seam::atomic::{AtomicU32, Ordering};

/// A bounded ring. Only the owner moves `tail`. Every taker moves `head`, by compare-and-exchange.
///
/// 1. A slot is written only while it is outside of `head..tail`.
/// 2. So if a slot is overwritten while a taker reads it, `head` has moved. The taker's exchange
///    fails, and it throws away what it read.
/// 3. The exchange would succeed wrongly only if `head` went round all 2³² values meanwhile. That
///    takes about ten seconds of nothing but takes during three instructions of one taker. The
///    runtime does not preempt its takers.
pub struct Ring<T: 'static, const N: usize> {
    head: AtomicU32,
    tail: AtomicU32,
    /// In a box of its own: a thread that asks many rings whether they are empty then touches few
    /// pages.
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
    /// Whether the ring is empty: a hint.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Relaxed: a caller that acts on the answer takes, and `take` synchronizes.
        self.head.load(Ordering::Relaxed) == self.tail.load(Ordering::Relaxed)
    }

    /// How many items there are: a hint.
    pub fn len(&self) -> usize {
        // Relaxed, as above.
        let (tail, head) = (self.tail.load(Ordering::Relaxed), self.head.load(Ordering::Relaxed));
        (tail.wrapping_sub(head) as usize).min(N)
    }

    /// Puts `item` in. Only the owner may do so.
    ///
    /// # Errors
    /// `item`, if the ring is full.
    #[inline]
    pub fn put(&self, item: &'static T) -> Result<(), &'static T> {
        // Relaxed: nobody else writes it.
        let tail = self.tail.load(Ordering::Relaxed);
        // SYNC with `head` compare_exchange in `take`: the taker of the slot's last item has read
        // it.
        let head = self.head.load(Ordering::Acquire);
        if tail.wrapping_sub(head) as usize >= N {
            return Err(item);
        }
        self.slots[tail as usize % N].set(item);
        // SYNC with `tail` load in `take`: the slot.
        self.tail.store(tail.wrapping_add(1), Ordering::Release);
        Ok(())
    }

    /// Takes the oldest item.
    #[inline]
    pub fn take(&self) -> Option<&'static T> {
        // SYNC with `head` compare_exchange below, by other takers: our `tail` is not older than
        // theirs.
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
