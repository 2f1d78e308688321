//! Starts a process that shares nothing with this one, and ends one.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Ends a child. It reaches no other process, although another thread may have waited for the
/// child.
#[derive(Debug)]
pub struct ChildEnder {
    process: OwnedFd,
}

impl ChildEnder {
    /// For a child for which nobody has waited yet.
    ///
    /// # Errors
    /// Too many open files.
    pub fn new(child: &Child) -> io::Result<Self> {
        Ok(Self { process: pidfd_open(Pid::from_child(child), PidfdFlags::empty())? })
    }

    /// Asks it to end: SIGTERM.
    pub fn terminate(&self) {
        // If it has ended, that is fine too.
        let _ = pidfd_send_signal(&self.process, Signal::TERM);
    }

    /// Ends it: SIGKILL.
    pub fn kill(&self) {
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_child_is_ended_and_nobody_else() {
        for (end, signal) in [(ChildEnder::terminate as fn(&ChildEnder), 15), (ChildEnder::kill, 9)] {
            let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
            let ender = ChildEnder::new(&child).unwrap();
            end(&ender);
            assert_eq!(child.wait().unwrap().signal(), Some(signal));
            end(&ender);
        }
    }
}
