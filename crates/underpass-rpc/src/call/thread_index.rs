//! Small numbers for kernel threads, to index tables by them.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many kernel threads get a number of their own. Beyond that two threads share a number: then
/// they also share a channel, although each could have one.
pub(crate) const THREAD_INDEXES: usize = 64;

/// The number of the kernel thread that runs the caller, below [`THREAD_INDEXES`].
// Never inlined: a user-level thread may go on in another kernel thread, so the address of the
// thread-local must be computed anew in each call.
#[inline(never)]
pub(crate) fn thread_index() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Relaxed: a number.
        static THREAD_INDEX: usize = NEXT.fetch_add(1, Ordering::Relaxed) % THREAD_INDEXES;
    }
    THREAD_INDEX.with(|thread_index| *thread_index)
}
