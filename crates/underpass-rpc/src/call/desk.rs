//! Kernel threads, activations or plain ones, told apart by small numbers.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many are told apart. Beyond, two share a number: then they share a channel where they need
/// not.
pub(crate) const DESKS: usize = 64;

/// The number of the kernel thread that runs the caller, below [`DESKS`].
// A thread may go on elsewhere: the place of what is a kernel thread's own must be found anew.
#[inline(never)]
pub(crate) fn desk() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Relaxed: a number.
        static DESK: usize = NEXT.fetch_add(1, Ordering::Relaxed) % DESKS;
    }
    DESK.with(|desk| *desk)
}
