//! The two signals that ask a process to end: SIGTERM, from supervisors, and SIGINT, from a
//! terminal's Ctrl-C.
//!
//! The first signal is noted and makes a descriptor readable, so that the process can finish what
//! it has begun. A second signal ends the process at once, as the first would without this module.
//! The handler runs on any kernel thread, so no thread needs a mask of its own.
//!
//! The handler uses atomics and system calls alone. A forked child has the handler too. There,
//! every signal counts as a second one.

use crate::signal::{self, action};
use crate::thread;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

/// One of the two signals.
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
/// The calls of `catch` that have not been released.
static CAUGHT: AtomicUsize = AtomicUsize::new(0);
/// The descriptor that the first signal makes readable.
static BELL: OnceLock<OwnedFd> = OnceLock::new();

/// Notes the first of these signals from now on, and makes the returned descriptor readable when it
/// comes.
///
/// A signal that this process ignores stays ignored, as for programs under `nohup` and for those
/// that a shell starts in the background.
///
/// # Errors
/// `AddrInUse` if this process handles one of the signals in another way, or too many files are
/// open. Both signals then act as before.
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
    // Counted before the handlers are installed: if another caller releases meanwhile, it leaves
    // them installed.
    CAUGHT.fetch_add(1, Ordering::SeqCst);
    install().inspect_err(|_| release())?;
    Ok(bell.as_fd())
}

/// Installs both handlers. After an error, one of them may be installed.
fn install() -> io::Result<()> {
    for (number, handler) in [(libc::SIGTERM, terminate as fn()), (libc::SIGINT, interrupt as fn())] {
        if action(number, None)? != libc::SIG_IGN {
            signal::install(number, handler)?;
        }
    }
    Ok(())
}

/// Restores the earlier action of these signals, unless another caller has called [`catch`] too. A
/// handler that other code has installed meanwhile stays.
pub fn release() {
    if CAUGHT.fetch_sub(1, Ordering::SeqCst) == 1 {
        [libc::SIGTERM, libc::SIGINT].into_iter().for_each(signal::uninstall);
    }
}

/// The first signal that has come.
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

/// Runs in the handler.
fn note(number: i32) {
    let own = OWNER.load(Ordering::SeqCst) == rustix::process::getpid().as_raw_pid().unsigned_abs();
    if own && FIRST.compare_exchange(0, number, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        if let Some(bell) = BELL.get() {
            // The counter behind the descriptor cannot be full.
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        }
        return;
    }
    // The kernel holds the raised signal back until this handler returns.
    raise(number);
}

/// Ends this process by the signal `number`, as if it had no handler. The first process of a
/// container does not end by signals that it sends itself. It exits with the status that shells
/// give for that signal.
fn raise(number: i32) {
    let raised = action(number, Some((libc::SIG_DFL, 0))).and_then(|_| thread::current().signal(number));
    if raised.is_err() || rustix::process::getpid().is_init() {
        signal::exit(128 + number);
    }
}

impl EndSignal {
    /// Ends this process by this signal, so that its parent sees the signal.
    pub fn end(self) -> ! {
        let number = match self {
            Self::Terminate => libc::SIGTERM,
            Self::Interrupt => libc::SIGINT,
        };
        raise(number);
        // This point is reached only if this kernel thread has the signal blocked.
        let _ = signal::unblock(number);
        signal::exit(128 + number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn other(_: i32) {}

    /// The current actions of SIGTERM and SIGINT.
    fn actions() -> [libc::sighandler_t; 2] {
        [libc::SIGTERM, libc::SIGINT].map(|number| action(number, None).unwrap())
    }

    #[test]
    fn catch_takes_both_signals_or_neither() {
        let before = actions();
        let others = other as *const () as libc::sighandler_t;
        action(libc::SIGINT, Some((others, 0))).unwrap();
        assert_eq!(catch().unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(actions(), [before[0], others]);
        // Other code catches both signals; when one of them is taken over, it keeps the other.
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
