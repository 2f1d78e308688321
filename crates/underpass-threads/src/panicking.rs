//! Whether the calling thread unwinds.
//!
//! `std` counts panics by kernel thread. A thread that is suspended in a destructor while it unwinds leaves its count behind, so
//! those that run on the same activation meanwhile have to subtract it.

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
    if unwinds {
        me.set(flag::UNWINDS, true);
        SUSPENDED.set(SUSPENDED.get() + 1);
    }
    unwinds
}

/// `me` goes on; it unwound if `unwinds`.
#[inline]
pub(crate) fn enter(_me: &Control, unwinds: bool) {
    if unwinds {
        SUSPENDED.set(SUSPENDED.get() - 1);
    }
}
