//! This process, as its parent and the kernel see it.

use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getrlimit, kill_process, pidfd_open,
    set_parent_process_death_signal, setrlimit,
};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;

/// Makes the kernel kill this process when the kernel thread that started it ends.
///
/// # Errors
/// The errors of `prctl`.
pub fn die_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Raises this process's limit on open files to its maximum, since each binding takes one file on
/// either side. Returns the new limit.
///
/// # Errors
/// The errors of `setrlimit`.
pub fn raise_files() -> io::Result<u64> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    Ok(maximum.unwrap_or(u64::MAX))
}

/// The current limit on open files.
pub fn files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The effective user of this process.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The supplementary groups of this process. Empty where the kernel cannot say.
pub fn groups() -> Vec<u32> {
    let groups = rustix::process::getgroups().unwrap_or_default();
    groups.into_iter().map(|group| group.as_raw()).collect()
}

/// A descriptor (`pidfd`) of this process.
///
/// # Errors
/// Linux before 5.3 has none, or too many files are open.
pub fn own_pidfd() -> io::Result<OwnedFd> {
    Ok(pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?)
}

/// Writes to the standard error output by system calls alone: it takes no lock and no memory, and
/// may run in a signal handler. What cannot be written is lost.
pub fn say(text: &[u8]) {
    let error = std::io::stderr();
    let mut left = text;
    while !left.is_empty() {
        match rustix::io::retry_on_intr(|| rustix::io::write(error.as_fd(), left)) {
            Ok(written @ 1..) => left = &left[written..],
            _ => return,
        }
    }
}

/// What another process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// It lives.
    Alive,
    /// It is stopped, by a signal or by a debugger.
    Stopped,
    /// It is ending, or has ended and was not waited for.
    Exiting,
    /// There is no such process, or this domain can't see it.
    Gone,
}

/// What the process `pid` does, as `/proc` says. Its number may belong to a later process.
///
/// # Examples
/// ```
/// use underpass_os::process::{ProcessState, state_of};
///
/// assert_eq!(state_of(std::process::id()), ProcessState::Alive);
/// assert_eq!(state_of(0), ProcessState::Gone);
/// ```
pub fn state_of(pid: u32) -> ProcessState {
    /// `PF_EXITING` of the kernel's `sched.h`.
    const EXITING: u64 = 4;
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return ProcessState::Gone };
    // The name of the program stands in parentheses, and may contain any.
    let mut fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ');
    let state = fields.next().unwrap_or_default();
    // Between them: parent, group, session, terminal, and the terminal's group.
    let flags = fields.nth(5).and_then(|flags| flags.parse().ok()).unwrap_or(0_u64);
    match state {
        "Z" | "X" | "x" => ProcessState::Exiting,
        _ if flags & EXITING != 0 => ProcessState::Exiting,
        "T" | "t" => ProcessState::Stopped,
        _ => ProcessState::Alive,
    }
}

/// Stops this child, as the shell's Ctrl-Z does, until [`go_on`] or a kill. It was not waited for,
/// so its number can't belong to another process.
///
/// # Errors
/// It may have taken another user's rights.
///
/// # Examples
/// ```
/// use underpass_os::process::{ProcessState, go_on, state_of, stop};
///
/// let mut child = std::process::Command::new("sleep").arg("60").spawn()?;
/// stop(&child)?;
/// while state_of(child.id()) != ProcessState::Stopped {
///     std::thread::yield_now();
/// }
/// go_on(&child)?;
/// child.kill()?;
/// child.wait()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn stop(child: &Child) -> io::Result<()> {
    Ok(kill_process(Pid::from_child(child), Signal::STOP)?)
}

/// Lets a child go on that [`stop`] has stopped.
///
/// # Errors
/// Those of [`stop`].
pub fn go_on(child: &Child) -> io::Result<()> {
    Ok(kill_process(Pid::from_child(child), Signal::CONT)?)
}
