//! Suspending and waking threads: what this crate promises to the runtime, in one place.
#![allow(unsafe_code, reason = "a wake too many has a thread run twice")]

use underpass_threads::{Control, Wait, Woken};

/// Suspends the caller, `me`. It is in the list of waiters from which `wait` takes it out. A timer
/// has no list, since nobody wakes a thread that waits for a time alone.
pub(crate) fn suspend(
    me: &'static Control,
    wait: &dyn Wait,
    deadline_ns: Option<u64>,
    cancellable: bool,
) -> Woken {
    // SAFETY: `EventSource::wait` puts the calling thread into the list under its lock just before
    // (J4). E4 and `abandon` take it out under the lock, so exactly one of them has it. `Rest` is
    // in no list, and says so.
    unsafe { underpass_threads::suspend(me, wait, deadline_ns, cancellable) }
}

/// Wakes a thread that `EventSource::ready` has taken out of its list.
pub(crate) fn wake(thread: &'static Control) {
    // SAFETY: the thread was taken out under the lock of the source, so it was there, and nobody
    // else has it.
    unsafe { thread.wake() };
}
