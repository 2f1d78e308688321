//! Takes files by their numbers, as an attacker does who has taken a process over.

use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

/// Another descriptor of the open file `number` of this process, whichever code owns it.
pub fn another(number: RawFd) -> std::io::Result<OwnedFd> {
    // SAFETY: this is deliberately unsafe: the file belongs to the runtime. The list of this
    // process's files says that it is open now, and nothing closes it meanwhile.
    unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned()
}
