//! Files by their numbers, as somebody takes them who has taken a process over.

use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

/// One more descriptor of what this process has open under `number`, whosever it is.
pub fn another(number: RawFd) -> std::io::Result<OwnedFd> {
    // SAFETY: it is not safe at all, as it is meant to be: the file is the runtime's. It is open
    // now, by the list of this process' files, and nothing closes it meanwhile.
    unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned()
}
