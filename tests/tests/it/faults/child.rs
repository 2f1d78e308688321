//! Runs code in a forked process.

use std::panic::{AssertUnwindSafe, catch_unwind};

unsafe extern "C" {
    fn fork() -> i32;
    fn _exit(status: i32) -> !;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
}

/// The result of `run` in a forked child of the caller: 0 to 100, or 101 if it panics. `None` if
/// the child was killed.
pub fn in_child(run: impl FnOnce() -> i32) -> Option<i32> {
    // SAFETY: the child has one kernel thread. It calls what the C library keeps usable after a
    // fork, and the tested code.
    let process = unsafe { fork() };
    if process == 0 {
        // A child that hangs must not outlive the test.
        let _ = underpass_os::process::die_with_parent();
        let status = catch_unwind(AssertUnwindSafe(run)).unwrap_or(101);
        // SAFETY: it runs no destructor of the parent's.
        unsafe { _exit(status) }
    }
    assert!(process > 0, "{}", std::io::Error::last_os_error());
    let mut status = 0;
    // SAFETY: a child of ours, and a place for its status.
    let waited = unsafe { waitpid(process, &raw mut status, 0) };
    assert_eq!(waited, process);
    (status & 0x7f == 0).then_some((status >> 8) & 0xff)
}
