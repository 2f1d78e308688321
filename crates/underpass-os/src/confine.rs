//! What a process gives up for good: capabilities, the system's namespaces, limits, files.

use crate::{signal, thread};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags, set_capabilities, unshare_unsafe};
use std::cell::Cell;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The real-time signal by which a kernel thread is asked to restrict itself.
const SIGNAL: i32 = 5;
/// How long one may take to do so.
const PATIENCE: Duration = Duration::from_secs(5);

/// Gives up all capabilities of the calling kernel thread, and so of those that it starts.
///
/// # Errors
/// What `capset` says.
pub fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}

/// Moves this process into namespaces of its own: of users (itself, under its number), of networks (none), of System V's and POSIX' shared memory and
/// queues (none), of host names.
///
/// # Errors
/// `InvalidInput` if the process has more than one kernel thread; `PermissionDenied` where users may have no namespaces; `StorageFull` when there are too many.
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

/// Leaves no image of memory behind when this process crashes, and lets nobody of this user look into it.
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

/// What kernel threads restrict themselves by.
static RULESET: AtomicI32 = AtomicI32::new(-1);
/// By what kernel threads with descriptor tables of their own restrict themselves as they are started.
static BEFOREHAND: Mutex<Option<OwnedFd>> = Mutex::new(None);
/// What came of it: [`PENDING`], 0, or an `errno`.
static OUTCOME: AtomicI32 = AtomicI32::new(0);
const PENDING: i32 = -1;

thread_local! {
    /// This kernel thread has restricted itself as it was started, or whoever started it had.
    static RESTRICTED: Cell<bool> = const { Cell::new(false) };
}

/// Has kernel threads with descriptor tables of their own restrict themselves by `ruleset` as they are
/// started, until [`restrict`] is called. In their tables there is no ruleset that this brings.
pub fn restrict_beforehand(ruleset: OwnedFd) {
    *beforehand() = Some(ruleset);
}

fn beforehand() -> MutexGuard<'static, Option<OwnedFd>> {
    BEFOREHAND.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the calling kernel thread has restricted itself, or was started so.
pub(crate) fn is_restricted_beforehand() -> bool {
    RESTRICTED.get()
}

/// Restricts the calling kernel thread, which is about to leave the process's descriptor table, as
/// [`restrict_beforehand`] said. `inherited` says that whoever started it was restricted.
///
/// # Errors
/// What `landlock_restrict_self` says.
pub(crate) fn leaves_table(inherited: bool) -> io::Result<()> {
    if inherited {
        RESTRICTED.set(true);
    } else if let Some(ruleset) = &*beforehand() {
        restrict_by(ruleset.as_raw_fd()).map_err(io::Error::from_raw_os_error)?;
        RESTRICTED.set(true);
    }
    Ok(())
}

/// Restricts all kernel threads of this process, and those that they start, by a ruleset of Landlock. Linux has a call for that since 7.0; before, each
/// has to do it by itself, and is asked to by a signal.
///
/// # Errors
/// What `landlock_restrict_self` says; `TimedOut` if a kernel thread doesn't take signals. Some are restricted then.
pub fn restrict(ruleset: BorrowedFd<'_>) -> io::Result<()> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let signal = signal::realtime(SIGNAL);
    signal::install_aside(signal, |_| restrict_self())?;
    // SYNC with `RULESET` load in `restrict_self`: the signal comes after it.
    RULESET.store(ruleset.as_raw_fd(), Ordering::SeqCst);
    let own = thread::current();
    let mut done = HashSet::from([own]);
    loop {
        // Who is not among those found was started by one that had restricted itself, or will be found in the next round.
        let mut new = false;
        for thread in thread::all()? {
            if done.insert(thread) {
                new = true;
                ask(thread, signal)?;
            }
        }
        if !new {
            // Whoever is started from now on inherits it.
            drop(beforehand().take());
            // The last one: it could look for no others afterwards.
            return ask(own, signal);
        }
    }
}

fn ask(thread: thread::Tid, signal: i32) -> io::Result<()> {
    // SYNC with `OUTCOME` store in `restrict_self`: what it says is of this thread.
    OUTCOME.store(PENDING, Ordering::SeqCst);
    if thread == thread::current() {
        restrict_self();
    } else {
        match thread.signal(signal) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        }
    }
    let begun = Instant::now();
    loop {
        match OUTCOME.load(Ordering::SeqCst) {
            0 => return Ok(()),
            PENDING if !thread.exists() => return Ok(()),
            PENDING if begun.elapsed() > PATIENCE => {
                let said = format!("kernel thread {} takes no signal {signal}", thread.as_raw());
                return Err(io::Error::new(io::ErrorKind::TimedOut, said));
            }
            PENDING => std::thread::yield_now(),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// On the kernel thread that it concerns, perhaps in a signal handler.
fn restrict_self() {
    let done = match RESTRICTED.get() {
        true => Ok(()),
        false => restrict_by(RULESET.load(Ordering::SeqCst)),
    };
    OUTCOME.store(done.err().unwrap_or(0), Ordering::SeqCst);
}

/// Restricts the calling kernel thread by the ruleset of this number, or says which `errno` came.
fn restrict_by(ruleset: i32) -> Result<(), i32> {
    rustix::thread::set_no_new_privs(true).map_err(rustix::io::Errno::raw_os_error)?;
    // SAFETY: two numbers; it touches no memory of ours.
    match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)),
    }
}
