//! The end of a thread: waking the joiner, and freeing the control block for another thread.

use crate::block::control::{Control, flag};
use crate::sched::unused_blocks;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Gives up one handle of `control`.
#[inline]
pub(crate) fn release(control: &'static Control) {
    // SYNC with the same in another holder: what that one did comes before the block is used again.
    // A holder that finds itself the only one needs no locked instruction: nobody else can make
    // another handle.
    if control.holders.load(Ordering::Acquire) == 1 || control.holders.fetch_sub(1, Ordering::AcqRel) == 1 {
        control.retire();
    }
}

/// Whether nobody will ask for the thread's result.
#[inline]
pub(crate) fn is_detached(control: &'static Control) -> bool {
    control.ended.is_registered(control)
}

/// The thread has ended and left its result: wakes the joiner. `false`: the right to the result was
/// just given up.
#[inline]
pub(crate) fn tell_end(control: &'static Control) -> bool {
    match control.ended.open() {
        Some(waiter) if std::ptr::eq(waiter, control) => false,
        waiter => {
            if let Some(waiter) = waiter {
                // SAFETY: the gate gives out each waiter once.
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
        // SAFETY: the thread has ended and left a result, and only the caller may use it.
        unsafe { control.body.discard() };
        release(control);
    }
}

impl Control {
    /// Nobody has a handle of the thread any more.
    pub(crate) fn retire(&'static self) {
        if self.has(flag::NAMED) {
            *self.name.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        unused_blocks::give_back(self);
    }
}
