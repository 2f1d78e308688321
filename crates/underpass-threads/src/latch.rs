//! A wait for one thing by one thread.

use crate::control::Control;
use underpass_seam::StaticSlot;
use underpass_seam::atomic::{AtomicU32, Ordering};

/// Shut, and nobody has blocked on it yet.
const SHUT: u32 = 0;
/// Shut, and `waiter` is blocked on it, or about to be.
const AWAITED: u32 = 1;
/// Open.
const OPEN: u32 = 2;

/// Something that one thread waits for and another opens: the end of a thread, the reply to a call.
///
/// `waiter` is written by the one that waits, before it says so in `state`; whoever opens reads it after.
#[derive(Debug, Default)]
pub struct Latch {
    state: AtomicU32,
    waiter: StaticSlot<Control>,
}

impl Latch {
    /// Shuts it, for a new wait. Only while nobody else may open it or wait for it.
    #[inline]
    pub fn shut(&self) {
        // Relaxed: what makes an opener know of this wait synchronizes.
        self.state.store(SHUT, Ordering::Relaxed);
    }

    /// Opens it, and tells the waiter to go on if it has blocked.
    #[inline]
    pub fn open(&self) {
        // SYNC with `state` load in `is_open`: what was done before; and compare_exchange in `block`: the waiter.
        if self.state.swap(OPEN, Ordering::AcqRel) == AWAITED
            && let Some(waiter) = self.waiter.get()
        {
            waiter.go_on();
        }
    }

    /// Whether it is open.
    #[inline]
    pub fn is_open(&self) -> bool {
        // SYNC with `state` swap in `open`: what was done before.
        self.state.load(Ordering::Acquire) == OPEN
    }

    /// Says that `me` is about to block until it is told to go on; `false` if it is open by now.
    #[inline]
    pub fn block(&self, me: &'static Control) -> bool {
        self.waiter.set(me);
        // SYNC with `state` swap in `open`: our `waiter`, or its opening.
        match self.state.compare_exchange(SHUT, AWAITED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(found) => found == AWAITED,
        }
    }
}
