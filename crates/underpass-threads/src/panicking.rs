//! Whether the calling thread unwinds.
//!
//! `std` counts panics by kernel thread. A thread that is suspended in a destructor while it unwinds leaves its count behind, so
//! those that run on the same activation meanwhile have to subtract it. `std` tells only whether the count is zero, so one case is told wrongly:
//! while one thread is suspended unwinding, another of the same activation that begins to unwind counts as one that does not.
//! A migrating thread that unwinds stays where its count is.

use crate::control::{Control, flag};
use crate::current;
use std::cell::Cell;

thread_local! {
    /// Threads of this activation that were suspended while they unwound.
    static SUSPENDED: Cell<u32> = const { Cell::new(0) };
}

/// Whether the calling thread unwinds because of a panic: as `std::thread::panicking`, but of the user-level thread.
///
/// # Examples
/// ```
/// assert!(!underpass_threads::panicking());
/// ```
#[inline]
pub fn panicking() -> bool {
    std::thread::panicking() && (SUSPENDED.get() == 0 || current::control().has(flag::UNWINDS))
}

/// `me` is about to be suspended; says whether it unwinds.
#[inline]
pub(crate) fn leave(me: &Control) -> bool {
    std::thread::panicking() && leave_unwinding(me)
}

#[cold]
fn leave_unwinding(me: &Control) -> bool {
    let unwinds = panicking();
    me.set(flag::UNWINDS, unwinds);
    if unwinds {
        SUSPENDED.set(SUSPENDED.get() + 1);
    }
    unwinds
}

/// A thread goes on, on the same kernel thread if it `unwinds`.
#[inline]
pub(crate) fn enter(unwinds: bool) {
    if unwinds {
        SUSPENDED.set(SUSPENDED.get() - 1);
    }
}
