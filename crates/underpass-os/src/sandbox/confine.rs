//! What a process gives up for good: capabilities, the system's namespaces, limits, files.

use crate::signal;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags, set_capabilities, unshare_unsafe};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

/// Gives up all capabilities of the calling kernel thread, and of the threads that it starts from
/// now on.
///
/// # Errors
/// The errors of `capset`.
pub fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}

/// Moves this process into namespaces of its own: a user namespace in which it keeps its user
/// number, a network namespace without networks, an IPC namespace without System V or POSIX
/// objects, and a namespace of host names.
///
/// # Errors
/// `InvalidInput` if the process has more than one kernel thread. `PermissionDenied` where users
/// may create no namespaces. `StorageFull` if there are too many namespaces.
pub fn leave_namespaces() -> io::Result<()> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let flags = UnshareFlags::NEWUSER | UnshareFlags::NEWNET | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    // SAFETY: open descriptors stay valid, because the flags do not include the table of files.
    unsafe { unshare_unsafe(flags) }?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// A limit of this process, set by [`limit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Bytes of memory that this process alone can write.
    Private,
    /// Bytes of address space.
    Addresses,
    /// Seconds of processor time. When they are used up `SIGXCPU` comes, and a second later
    /// `SIGKILL`.
    Processor,
    /// Open files.
    Files,
    /// Bytes of a file that the process writes to. `SIGXFSZ` is ignored, so that writing fails.
    FileSize,
    /// Kernel threads and processes of this user, counted in this user namespace.
    Tasks,
}

/// Sets a limit for good.
///
/// # Errors
/// The errors of `setrlimit`.
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

/// Prevents a core dump when this process crashes, and prevents other processes of this user from
/// looking into its memory.
///
/// # Errors
/// The errors of `prctl`.
pub fn leave_no_core() -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    // The limit on core dumps does not apply to dumps that the kernel pipes into a program.
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Makes this process the first that the kernel kills when memory runs out.
///
/// # Errors
/// There is no `/proc`.
pub fn die_first() -> io::Result<()> {
    fs::write("/proc/self/oom_score_adj", "1000")
}

/// Bytes of memory that this process alone can write, and bytes of its address space.
///
/// # Errors
/// There is no `/proc`.
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

/// Takes the file behind the standard input and puts an empty one in its place.
///
/// # Errors
/// There is no `/dev/null`, or too many files are open.
pub fn take_stdin() -> io::Result<OwnedFd> {
    use std::os::fd::AsFd;
    let taken = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(fs::File::open("/dev/null")?)?;
    Ok(taken)
}
