//! The one unsafe call: putting a descriptor into the poller.
#![allow(unsafe_code, reason = "polling's `add` is unsafe, for pollers that keep a descriptor's number")]

use polling::{Event, Poller};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Has `poller` watch `fd` for one event of `interest`.
///
/// # Errors
/// `AlreadyExists` if `fd` is watched already; `PermissionDenied` for a file that is always ready;
/// no memory; too many watches (`fs.epoll.max_user_watches`).
pub(crate) fn add(poller: &Poller, fd: BorrowedFd<'_>, interest: Event) -> io::Result<()> {
    // SAFETY: `fd` is borrowed, so it is open during the call. `add` also demands that `fd` be
    // deleted before it is closed, because some pollers keep its number and use it later. `Async`
    // deletes what it added before it drops its `T`. A program may put another `T` in its place,
    // and then that isn't so. But this crate is built for Linux alone, where the poller is epoll.
    // It keeps the open file instead of the number, forgets it when it is closed, and passes no
    // memory of ours to anybody.
    unsafe { poller.add(fd.as_raw_fd(), interest) }
}
