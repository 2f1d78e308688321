//! Suspending and waking threads: what this crate promises to the runtime, in one place. The proof
//! is in `README.md`.

use underpass_threads::{Control, Wait, Woken};

/// Suspends the caller, `me`, which is in a list. `wait` can take it out.
#[inline(always)]
pub(crate) fn suspend(
    me: &'static Control,
    wait: &dyn Wait,
    deadline_ns: Option<u64>,
    cancellable: bool,
) -> Woken {
    // SAFETY: `WaitQueue::enlist` has put the calling thread into the list, with the lock held.
    // `QueueWait` takes it out, and `SelectToken` decides, in such a way that exactly one thread
    // does. If that is another thread, it wakes this one.
    unsafe { underpass_threads::suspend(me, wait, deadline_ns, cancellable) }
}

/// As [`suspend`]. What ends the thread's calls ends this too.
pub(crate) fn suspend_as_call(me: &'static Control, wait: &dyn Wait, deadline_ns: Option<u64>) -> Woken {
    // SAFETY: as in `suspend`.
    unsafe { underpass_threads::suspend_as_call(me, wait, deadline_ns) }
}

/// Wakes a thread that was taken out of a list, or for which a token was decided.
#[inline]
pub(crate) fn wake(who: &'static Control) {
    // SAFETY: `QueueGuard::take` returns each waiter of a list once, and a token is decided once.
    unsafe { who.wake() };
}
