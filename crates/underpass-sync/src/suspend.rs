//! Suspending and waking: what this crate promises to the runtime, in one place. The proof is in
//! `README.md`.

use underpass_threads::{Control, Wait, Woken};

/// Suspends the caller, `me`, who has a place in a list from which `wait` takes it out.
#[inline(always)]
pub(crate) fn suspend(
    me: &'static Control,
    wait: &dyn Wait,
    deadline_ns: Option<u64>,
    cancellable: bool,
) -> Woken {
    // SAFETY: `WaitQueue::enlist` has put the calling thread into the list, with the lock held, and
    // `QueueWait` and `SelectToken` take it out, or decide, such that exactly one does: whoever else takes
    // it wakes it.
    unsafe { underpass_threads::suspend(me, wait, deadline_ns, cancellable) }
}

/// Wakes one that was taken out of a list, or for which a token was decided.
#[inline]
pub(crate) fn wake(who: &'static Control) {
    // SAFETY: `QueueGuard::take` gives each place in a list out once, and a token is decided once.
    unsafe { who.wake() };
}
