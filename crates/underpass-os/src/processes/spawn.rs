//! Starts a process that shares nothing with this one.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes the process that `command` starts inherit only the standard files, and die with the kernel
/// thread that starts it.
pub fn isolate(command: &mut Command) {
    let prepare = || {
        // SAFETY: the call takes numbers alone. It marks files to be closed by `exec`, and touches
        // no memory.
        let closed = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        if closed != 0 {
            return Err(io::Error::last_os_error());
        }
        crate::process::die_with_parent()
    };
    // SAFETY: between `fork` and `exec` the closure makes two system calls, and takes neither locks
    // nor memory.
    unsafe { command.pre_exec(prepare) };
}
