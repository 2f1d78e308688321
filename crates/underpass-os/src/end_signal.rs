//! The two signals by which a process is asked to end: SIGTERM, of supervisors, and SIGINT, of a
//! terminal's Ctrl-C.
//!
//! The first one is noted and rings a bell, for a process that ends what it has begun. A second one
//! ends the process at once, as the first would without this. The handler runs on whatever kernel
//! thread the kernel chooses, so no thread needs a mask of its own.
//!
//! The handler uses atomics and system calls alone. A child that was forked off has it too, and
//! there every signal is a second one.

use crate::signal::{self, action};
use crate::thread;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

/// Such a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndSignal {
    /// SIGTERM.
    Terminate,
    /// SIGINT.
    Interrupt,
}

/// The number of the first signal; 0 before.
static FIRST: AtomicI32 = AtomicI32::new(0);
/// The process whose signals these are.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// How often they were caught and not released.
static CAUGHT: AtomicUsize = AtomicUsize::new(0);
/// Rung by the first.
static BELL: OnceLock<OwnedFd> = OnceLock::new();

/// From now on the first of these signals is noted, and makes what this returns readable.
///
/// A signal that this process ignores stays ignored, as for programs under `nohup` and for those
/// that a shell starts in the background.
///
/// # Errors
/// `AddrInUse` if this process handles one of them in another way; too many open files. Then both
/// do what they did before.
pub fn catch() -> io::Result<BorrowedFd<'static>> {
    let bell = match BELL.get() {
        Some(bell) => bell,
        None => {
            let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            BELL.get_or_init(|| bell)
        }
    };
    // SYNC with the load in `note`, which runs after the handler is there.
    OWNER.store(process::id(), Ordering::SeqCst);
    // Before it installs: then a `release` of somebody else leaves the handlers there.
    CAUGHT.fetch_add(1, Ordering::SeqCst);
    install().inspect_err(|_| release())?;
    Ok(bell.as_fd())
}

/// Installs the handlers; on an error, one of them may be there.
fn install() -> io::Result<()> {
    for (number, handler) in [(libc::SIGTERM, terminate as fn()), (libc::SIGINT, interrupt as fn())] {
        if action(number, None)? != libc::SIG_IGN {
            signal::install(number, handler)?;
        }
    }
    Ok(())
}

/// These signals do again what they did before [`catch`], unless somebody else has called that too.
/// A handler that something else has installed meanwhile stays.
pub fn release() {
    if CAUGHT.fetch_sub(1, Ordering::SeqCst) == 1 {
        [libc::SIGTERM, libc::SIGINT].into_iter().for_each(signal::uninstall);
    }
}

/// The first that has come.
pub fn came() -> Option<EndSignal> {
    match FIRST.load(Ordering::SeqCst) {
        0 => None,
        libc::SIGINT => Some(EndSignal::Interrupt),
        _ => Some(EndSignal::Terminate),
    }
}

fn terminate() {
    note(libc::SIGTERM);
}

fn interrupt() {
    note(libc::SIGINT);
}

/// In the handler.
fn note(number: i32) {
    let own = OWNER.load(Ordering::SeqCst) == rustix::process::getpid().as_raw_pid().unsigned_abs();
    if own && FIRST.compare_exchange(0, number, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        if let Some(bell) = BELL.get() {
            // It can't be full.
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        }
        return;
    }
    // What it raises comes when the handler returns, as the kernel holds it back until then.
    raise(number);
}

/// Has this process end by `number`, as if it had no handler. What doesn't end by signals that it
/// sends itself, the first process of a container, exits with the status that shells give for it.
fn raise(number: i32) {
    let raised = action(number, Some((libc::SIG_DFL, 0))).and_then(|_| thread::current().signal(number));
    if raised.is_err() || rustix::process::getpid().is_init() {
        signal::exit(128 + number);
    }
}

impl EndSignal {
    /// Ends this process by this signal, so that its parent sees that.
    pub fn end(self) -> ! {
        let number = match self {
            Self::Terminate => libc::SIGTERM,
            Self::Interrupt => libc::SIGINT,
        };
        raise(number);
        // It comes here only if this kernel thread holds the signal back.
        let _ = signal::unblock(number);
        signal::exit(128 + number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn other(_: i32) {}

    /// What SIGTERM and SIGINT do.
    fn actions() -> [libc::sighandler_t; 2] {
        [libc::SIGTERM, libc::SIGINT].map(|number| action(number, None).unwrap())
    }

    #[test]
    fn who_can_t_catch_both_catches_neither_and_leaves_others_alone() {
        let before = actions();
        let others = other as *const () as libc::sighandler_t;
        action(libc::SIGINT, Some((others, 0))).unwrap();
        assert_eq!(catch().unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(actions(), [before[0], others]);
        // Somebody who has caught both, before another takes one, keeps the other.
        action(libc::SIGINT, Some((before[1], 0))).unwrap();
        catch().unwrap();
        let caught = actions();
        action(libc::SIGINT, Some((others, 0))).unwrap();
        assert_eq!(catch().unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(actions(), [caught[0], others]);
        release();
        assert_eq!(actions(), [before[0], others]);
        action(libc::SIGINT, Some((before[1], 0))).unwrap();
    }
}
