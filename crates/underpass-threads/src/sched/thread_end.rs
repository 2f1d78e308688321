//! The end of a thread: who is woken by it, and when its control block is free for another.

use crate::block::control::{Control, flag};
use crate::sched::unused_blocks;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Holds `control` no more.
#[inline]
pub(crate) fn release(control: &'static Control) {
    // SYNC with the same in another holder: what it did comes before the block is used again. Who
    // finds that it is the only holder needs no locked instruction: nobody else can make another.
    if control.holders.load(Ordering::Acquire) == 1 || control.holders.fetch_sub(1, Ordering::AcqRel) == 1 {
        control.retire();
    }
}

/// Whether nobody will ask for its result.
#[inline]
pub(crate) fn is_detached(control: &'static Control) -> bool {
    control.ended.is_registered(control)
}

/// It has ended and left its result: wakes who joins. `false` if nobody will ask for the result,
/// just now.
#[inline]
pub(crate) fn tell_end(control: &'static Control) -> bool {
    match control.ended.open() {
        Some(waiter) if std::ptr::eq(waiter, control) => false,
        waiter => {
            if let Some(waiter) = waiter {
                // SAFETY: the gate gives each waiter out once.
                unsafe { waiter.wake() };
            }
            true
        }
    }
}

/// Gives up the right to the result of `control`: the thread goes on by itself.
///
/// # Safety
/// The caller has that right, and nobody else does.
pub(crate) unsafe fn detach(control: &'static Control) {
    if !control.ended.register(control) {
        // SAFETY: it has ended and left a result, and only its one handle sees to that.
        unsafe { control.body.discard() };
        release(control);
    }
}

impl Control {
    /// Nobody holds it any more.
    pub(crate) fn retire(&'static self) {
        if self.has(flag::NAMED) {
            *self.name.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        unused_blocks::give_back(self);
    }
}
