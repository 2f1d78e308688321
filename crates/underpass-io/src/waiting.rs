//! Suspending and waking: what this crate promises to the runtime, in one place.
#![allow(unsafe_code, reason = "a wake too many has a thread run twice")]

use underpass_threads::{Control, Wait, Woken};

/// Suspends the caller, `me`, who is in the list of waiters that `wait` takes it out of; a timer is
/// none, for nobody wakes who waits for one alone.
pub(crate) fn suspend(
    me: &'static Control,
    wait: &dyn Wait,
    deadline_ns: Option<u64>,
    cancellable: bool,
) -> Woken {
    // SAFETY: `EventSource::wait` puts the calling thread into the list under its lock just before (J4),
    // and takes it out under the lock (E4, and `abandon`), so that exactly one has it; `Rest` is in
    // no list, and says so.
    unsafe { underpass_threads::suspend(me, wait, deadline_ns, cancellable) }
}

/// Wakes one that `EventSource::ready` has taken out of its list.
pub(crate) fn wake(who: &'static Control) {
    // SAFETY: it was taken out under the lock of the source, so it was there, and nobody else has
    // it.
    unsafe { who.wake() };
}
