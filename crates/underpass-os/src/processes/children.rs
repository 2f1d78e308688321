//! The children of this process, those included whose parents have ended.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, wait};
use std::io;

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildEnd {
    /// It exited with this status.
    Exited(u8),
    /// This signal has ended it.
    Killed(i32),
}

impl ChildEnd {
    /// The exit status that says the same: shells give 128 and the signal's number for a signal.
    pub fn status(self) -> u8 {
        match self {
            Self::Exited(status) => status,
            Self::Killed(signal) => 128 + (signal & 127) as u8,
        }
    }
}

/// Makes this process the parent of all processes below it whose own parents end.
///
/// # Errors
/// The errors of `prctl`.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Waits for no child, and takes one that has ended. `None` if none has.
///
/// Other code of this process must not wait for children of its own then: this takes any.
pub fn take_ended() -> Option<(u32, ChildEnd)> {
    loop {
        let (pid, status) = wait(WaitOptions::NOHANG).ok().flatten()?;
        let end = match (status.exit_status(), status.terminating_signal()) {
            (Some(status), _) => ChildEnd::Exited(status as u8),
            (None, Some(signal)) => ChildEnd::Killed(signal),
            // It was stopped or goes on.
            (None, None) => continue,
        };
        return Some((pid.as_raw_pid().unsigned_abs(), end));
    }
}

/// Sends a signal to a child that was not taken yet, so that the number is its own still.
///
/// # Errors
/// There is no such signal, or the child runs as another user.
pub fn send(child: u32, signal: i32) -> io::Result<()> {
    let child = i32::try_from(child).ok().and_then(Pid::from_raw);
    match (child, Signal::from_named_raw(signal)) {
        (Some(child), Some(signal)) => Ok(kill_process(child, signal)?),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}
