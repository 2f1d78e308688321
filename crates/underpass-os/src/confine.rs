//! What a process gives up for good: capabilities, the system's namespaces, limits, files.

use crate::signal;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags, set_capabilities, unshare_unsafe};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

/// Gives up all capabilities of the calling kernel thread, and so of those that it starts.
///
/// # Errors
/// What `capset` says.
pub fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}

/// Moves this process into namespaces of its own: of users (itself, under its number), of networks
/// (none), of System V's and POSIX' shared memory and queues (none), of host names.
///
/// # Errors
/// `InvalidInput` if the process has more than one kernel thread; `PermissionDenied` where users
/// may have no namespaces; `StorageFull` when there are too many.
pub fn leave_namespaces() -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let flags = UnshareFlags::NEWUSER | UnshareFlags::NEWNET | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    // SAFETY: descriptors stay what they are: the table of files is not among the flags.
    unsafe { unshare_unsafe(flags) }?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// A limit of this process, as of [`limit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Bytes of memory that it alone can write.
    Private,
    /// Bytes of addresses.
    Addresses,
    /// Seconds of processor time: then comes `SIGXCPU`, and a second later `SIGKILL`.
    Processor,
    /// Open files.
    Files,
    /// Bytes of a file that it writes to. `SIGXFSZ` is ignored: writing fails.
    FileSize,
    /// Kernel threads and processes of this user, or in this namespace of users.
    Tasks,
}

/// Sets a limit for good.
///
/// # Errors
/// What `setrlimit` says.
pub fn limit(what: Limit, most: u64) -> io::Result<()> {
    let (resource, beyond) = match what {
        Limit::Private => (Resource::Data, 0),
        Limit::Addresses => (Resource::As, 0),
        Limit::Processor => (Resource::Cpu, 1),
        Limit::Files => (Resource::Nofile, 0),
        Limit::FileSize => {
            signal::ignore(libc::SIGXFSZ)?;
            (Resource::Fsize, 0)
        }
        Limit::Tasks => (Resource::Nproc, 0),
    };
    let maximum = most.saturating_add(beyond);
    Ok(setrlimit(resource, Rlimit { current: Some(most), maximum: Some(maximum) })?)
}

/// Leaves no image of memory behind when this process crashes, and lets nobody of this user look
/// into it.
///
/// # Errors
/// What `prctl` says.
pub fn leave_no_core() -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    // The limit does not concern images that the kernel hands to a program.
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Has the kernel end this process rather than others when memory runs out.
///
/// # Errors
/// No `/proc`.
pub fn die_first() -> io::Result<()> {
    fs::write("/proc/self/oom_score_adj", "1000")
}

/// Bytes of memory that this process alone can write, and of addresses that it uses.
///
/// # Errors
/// No `/proc`.
pub fn memory_used() -> io::Result<(u64, u64)> {
    let status = fs::read_to_string("/proc/self/status")?;
    let bytes = |name| {
        let line =
            status.lines().find_map(|line| line.strip_prefix(name)).ok_or(io::ErrorKind::InvalidData)?;
        let kib = line.split_ascii_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        Ok::<_, io::Error>(kib.ok_or(io::ErrorKind::InvalidData)? * 1024)
    };
    Ok((bytes("VmData:")?, bytes("VmSize:")?))
}

/// Gives the file behind the standard input, in whose place there is nothing to read from then on.
///
/// # Errors
/// No `/dev/null`; too many open files.
pub fn take_stdin() -> io::Result<OwnedFd> {
    use std::os::fd::AsFd;
    let taken = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(fs::File::open("/dev/null")?)?;
    Ok(taken)
}
