//! Who waits for what another thread holds.

use crate::control::Control;
use crate::suspend::Wait;
use std::sync::atomic::Ordering;

/// `me` is about to wait for something that is not ended by cancellation: a lock, an answer, a thread's end.
#[inline]
pub(crate) fn about_to_wait(me: &'static Control, wait: &dyn Wait) {
    if let Some(holder) = wait.describe().holder {
        // Relaxed: a guess, checked before anybody is told.
        me.waits_for.store(holder, Ordering::Relaxed);
    }
}
