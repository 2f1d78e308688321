//! A coarse clock, for saying since when a thread waits without reading a clock at each wait.

use std::sync::atomic::{AtomicU64, Ordering};
use underpass_os::clock::now_ns;

static NOW: AtomicU64 = AtomicU64::new(0);

/// The time of the last tick, in ns of the monotonic clock.
#[inline]
pub(crate) fn now() -> u64 {
    // Relaxed: a time for people.
    NOW.load(Ordering::Relaxed)
}

/// Sets it: by the monitor while threads wait for a processor, and by activations that have slept
/// or are about to.
pub(crate) fn set() {
    NOW.store(now_ns(), Ordering::Relaxed);
}

/// Sets it if it never was.
pub(crate) fn set_once() {
    if now() == 0 {
        set();
    }
}
