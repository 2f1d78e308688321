//! A coarse clock. It dates the start of each wait, which would be too dear with a read of the real
//! clock.

use std::sync::atomic::{AtomicU64, Ordering};
use underpass_os::clock::now_ns;

static NOW: AtomicU64 = AtomicU64::new(0);

/// The time of the last tick, in ns of the monotonic clock.
#[inline]
pub(crate) fn now() -> u64 {
    // Relaxed: the time is for people.
    NOW.load(Ordering::Relaxed)
}

/// Sets the clock. The monitor does so while threads wait for a processor, and an activation before
/// and after it sleeps.
pub(crate) fn set() {
    NOW.store(now_ns(), Ordering::Relaxed);
}

/// Sets the clock if it was never set.
pub(crate) fn set_once() {
    if now() == 0 {
        set();
    }
}
