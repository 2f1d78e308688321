//! Landlock: a process permanently forbids itself to open any file, TCP port or abstract Unix
//! socket by name.

use crate::{signal, thread};
use std::collections::HashSet;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The real-time signal by which a kernel thread is asked to restrict itself.
const SIGNAL: i32 = 5;
/// How long a kernel thread may take to restrict itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// The version of Landlock that can refuse TCP ports (Linux 6.7).
pub const NETWORK: u32 = 4;

/// A ruleset without rules refuses everything that it handles. These are the words of
/// `landlock_ruleset_attr`: rights to files, rights to TCP ports, and scopes.
static HANDLED: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
/// The outcome on the kernel thread that was asked last: [`PENDING`], 0, or an `errno`.
static OUTCOME: AtomicI32 = AtomicI32::new(0);
const PENDING: i32 = -1;

/// The Landlock version of this kernel.
///
/// # Errors
/// `Unsupported` if this kernel has no Landlock, or has it switched off.
pub fn version() -> io::Result<u32> {
    // SAFETY: `LANDLOCK_CREATE_RULESET_VERSION` asks for a number, and touches no memory.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, ptr::null::<u64>(), 0, 1) };
    u32::try_from(version).map_err(|_| io::Error::from(io::ErrorKind::Unsupported))
}

/// What a ruleset of this version can handle, from `landlock.h` of Linux 6.15 (version 7).
fn handled(version: u32) -> [u64; 3] {
    let files = match version {
        ..2 => 13,
        2 => 14,
        3..5 => 15,
        5.. => 16,
    };
    // `LANDLOCK_ACCESS_NET_BIND_TCP` and `CONNECT_TCP`; `LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET`.
    [(1 << files) - 1, if version < NETWORK { 0 } else { 3 }, if version < 6 { 0 } else { 1 }]
}

/// Restricts all kernel threads of this process, and those that they start. Returns the [`version`]
/// that was used.
///
/// Since version 7.0, Linux has a call that restricts all threads. Before, each thread has to
/// restrict itself, and a signal asks it to. Each thread makes the ruleset anew, since some have a
/// descriptor table of their own.
///
/// # Errors
/// `Unsupported`, as for [`version`]. The errors of `landlock_restrict_self`. `TimedOut` if a
/// kernel thread does not take signals; some threads are restricted then.
pub fn restrict() -> io::Result<u32> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let version = version()?;
    let signal = signal::realtime(SIGNAL);
    signal::install_aside(signal, |_| restrict_self())?;
    for (handled, bits) in HANDLED.iter().zip(handled(version)) {
        // SYNC with `HANDLED` load in `restrict_self`: the signal comes after it.
        handled.store(bits, Ordering::SeqCst);
    }
    let own = thread::current();
    let mut done = HashSet::from([own]);
    loop {
        // A thread that is not in the list was started by a restricted thread, or will be found in
        // the next round.
        let mut new = false;
        for thread in thread::all()? {
            if done.insert(thread) {
                new = true;
                ask(thread, signal)?;
            }
        }
        if !new {
            // This thread comes last, because it cannot list the threads afterwards.
            ask(own, signal)?;
            return Ok(version);
        }
    }
}

fn ask(thread: thread::Tid, signal: i32) -> io::Result<()> {
    // SYNC with `OUTCOME` store in `restrict_self`: the value that is read later comes from this
    // thread.
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

/// Runs on the kernel thread that is to be restricted, possibly in a signal handler.
fn restrict_self() {
    let done = rustix::thread::set_no_new_privs(true).map_err(|e| e.raw_os_error());
    OUTCOME.store(done.and_then(|()| enforce()).err().unwrap_or(0), Ordering::SeqCst);
}

/// Makes a ruleset, restricts the calling kernel thread by it, and closes it. The error is the
/// `errno`.
fn enforce() -> Result<(), i32> {
    let errno = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    // SYNC with `HANDLED` store in `restrict`.
    let handled = HANDLED.each_ref().map(|bits| bits.load(Ordering::SeqCst));
    // SAFETY: the kernel reads the given number of bytes, which are there. An older kernel wants
    // the bytes beyond its own struct to be 0.
    let ruleset = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, handled.as_ptr(), size_of_val(&handled), 0)
    };
    if ruleset < 0 {
        return Err(errno());
    }
    // SAFETY: two numbers; it touches no memory of ours.
    let done = match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0) } {
        0 => Ok(()),
        _ => Err(errno()),
    };
    // SAFETY: it was opened above, and nobody else knows of it.
    unsafe { libc::close(ruleset as i32) };
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ruleset_handles_what_its_version_knows() {
        assert_eq!(handled(1), [0x1fff, 0, 0]);
        assert_eq!(handled(3), [0x7fff, 0, 0]);
        assert_eq!(handled(4), [0x7fff, 3, 0]);
        assert_eq!(handled(7), [0xffff, 3, 1]);
        assert_eq!(handled(99), handled(7), "what comes later is not known here");
    }
}
