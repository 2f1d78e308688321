//! The one unsafe call: putting a descriptor into the poller.
#![allow(unsafe_code, reason = "polling's `add` is unsafe, for pollers that keep a descriptor's number")]

use polling::{Event, Poller};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Has `poller` watch `fd` for `interest`, once.
///
/// # Errors
/// `AlreadyExists` if `fd` is watched; `PermissionDenied` for a file that is always ready; no
/// memory; too many watches (`fs.epoll.max_user_watches`).
pub(crate) fn add(poller: &Poller, fd: BorrowedFd<'_>, interest: Event) -> io::Result<()> {
    // SAFETY: `fd` is borrowed, so it is open during the call. `add` asks besides that it be
    // deleted before it is closed, for the sake of pollers that keep its number and use it later.
    // `Async` deletes what it added before it lets go of its `T`. Where a program has put another
    // `T` in its place, that isn't so; but on Linux, for which alone this is built, the poller is
    // epoll, which keeps the open file instead, forgets it when it is closed, and passes no memory
    // of ours to anybody.
    unsafe { poller.add(fd.as_raw_fd(), interest) }
}
