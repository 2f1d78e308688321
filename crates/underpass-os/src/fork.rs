//! Processes that are forked off: they share the sockets of the process that they come from, and have none of its kernel threads.

use std::io;
use std::sync::OnceLock;

/// That this process is no such one: of those that come from each other, the first that asks.
///
/// # Errors
/// It is, and may do nothing with what it shares.
pub fn check() -> io::Result<()> {
    static FIRST: OnceLock<u32> = OnceLock::new();
    match *FIRST.get_or_init(std::process::id) == std::process::id() {
        true => Ok(()),
        false => Err(io::Error::other(
            "this process was forked off one that uses Underpass, and has no part in its bindings; have it execute a program, or fork before the first of them",
        )),
    }
}

/// From now on `before` runs before each `fork` of this process, on the kernel thread that forks, and then `parent` and `child`, each where it says. (A `clone` that goes around the
/// C library calls none of them.)
///
/// # Errors
/// No memory.
pub fn watch(before: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) -> io::Result<()> {
    // SAFETY: the functions are there as long as the process.
    match unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}
