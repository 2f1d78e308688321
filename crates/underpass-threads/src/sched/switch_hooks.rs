//! Hooks that are called at each switch of threads, for example by `underpass-tracing`.

use crate::block::control::Control;
use crate::block::suspension::Wait;
use crate::block::thread_id::ThreadId;
use crate::sched::scheduler::{self, Scheduler};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use underpass_processor::Pool;

/// Hooks at each switch, called on the kernel thread on which it happens.
///
/// Both methods run between two threads, on behalf of the scheduler. No user-level thread is there
/// that could be suspended, so the methods count as running on a plain kernel thread:
/// [`current`](crate::current()) is not the thread that is switched. Every other thread of the
/// activation waits until they return. They may take free locks, start threads and wake them.
///
/// Two things end the process with a message (`abort`):
/// * **Waiting** for anything of this package or of what is built on it: a lock that another thread
///   holds, a channel, a join, [`sleep`](crate::sleep()), a call into another domain. The thread
///   that would end the wait may live on this very activation. *Remedy:* a lock of `std` that is
///   held for moments, or `try_lock`.
/// * **Panicking**: there is no caller to return the panic to. *Remedy:* `catch_unwind` in the
///   method.
///
/// [`yield_now`](crate::yield_now()) lets other kernel threads go first, and no user-level thread.
///
/// # Examples
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use underpass::thread::{Switches, ThreadId, spawn, watch_switches, yield_now};
///
/// struct Count(AtomicU64);
/// impl Switches for Count {
///     fn resumes(&self, _: ThreadId) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
///     fn pauses(&self, _: ThreadId) {}
/// }
/// static COUNT: Count = Count(AtomicU64::new(0));
///
/// assert!(watch_switches(&COUNT), "nobody else watches");
/// spawn(yield_now).join().unwrap();
/// assert!(COUNT.0.load(Ordering::Relaxed) >= 2);
/// ```
pub trait Switches: Send + Sync {
    /// The thread is about to run.
    fn resumes(&self, thread: ThreadId);
    /// The thread has stopped running. It may run again, or it has ended.
    fn pauses(&self, thread: ThreadId);
}

static SET: AtomicBool = AtomicBool::new(false);
static HOOK: OnceLock<&'static dyn Switches> = OnceLock::new();

/// Calls `switches` at each switch from now on. `false`: another watcher is set already.
pub fn watch_switches(switches: &'static dyn Switches) -> bool {
    let first = HOOK.set(switches).is_ok();
    if first {
        // SYNC with `SET` load in `set`: a hint. `OnceLock` publishes the hook itself.
        SET.store(true, Ordering::Release);
    }
    first
}

/// Whether a hook is set.
#[inline]
pub(crate) fn set() -> bool {
    // Relaxed: each scheduler sees it sooner or later.
    SET.load(Ordering::Relaxed)
}

/// What runs between two threads, where nothing may wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Between {
    /// A watcher of switches.
    Watcher,
    /// A task that another crate has injected.
    Injected,
}

impl Between {
    fn name(self) -> &'static str {
        match self {
            Self::Watcher => {
                "a watcher of switches (`Switches`, or a layer beside `underpass_tracing::Follow`)"
            }
            Self::Injected => {
                "a handler of interrupts, or another task that was injected between two threads,"
            }
        }
    }
}

/// Runs `what` between two threads of `own`. If it waits or panics, the process ends.
pub(crate) fn between_threads(own: &'static Scheduler, kind: Between, what: impl FnOnce()) {
    let outer = own.between.replace(Some(kind));
    let ran = catch_unwind(AssertUnwindSafe(what));
    own.between.set(outer);
    if ran.is_err() {
        refuse(kind, format_args!("has panicked. Catch panics in it"));
    }
}

/// Calls the hook for `control`, as a plain kernel thread: the hook finds no user-level thread here
/// that it could suspend.
#[cold]
fn call(own: &'static Scheduler, control: &'static Control, what: fn(&dyn Switches, ThreadId)) {
    let Some(hook) = HOOK.get() else { return };
    let current = own.outside.current.get();
    own.outside.current.clear();
    between_threads(own, Between::Watcher, || what(*hook, ThreadId(control.id())));
    if let Some(current) = current {
        own.outside.current.set(current);
        if own.busy() {
            // The hook has made other threads ready, which does not wake the monitor while no
            // thread runs.
            Pool::wake_monitor();
        }
    }
}

/// Ends the process if a hook or an injected task runs here: its kernel thread is about to wait for
/// `wait`.
pub(crate) fn refuse_waiting(wait: &dyn Wait) {
    if let Some(kind) = runs_here() {
        refuse_wait(kind, wait.describe().kind);
    }
}

/// As [`refuse_waiting`], before a call that blocks in the kernel.
#[inline]
pub(crate) fn refuse_blocking() {
    if let Some(kind) = runs_here() {
        refuse_wait(kind, "a blocking call");
    }
}

/// What runs between two threads here, if anything does.
#[inline]
pub(crate) fn runs_here() -> Option<Between> {
    scheduler::with(|own| own.between.get()).flatten()
}

#[cold]
fn refuse_wait(kind: Between, what: &str) -> ! {
    refuse(
        kind,
        format_args!(
            "waits for {what}, which is not allowed there. Take a lock of `std` for moments, or `try_lock`"
        ),
    )
}

fn refuse(kind: Between, why: fmt::Arguments<'_>) -> ! {
    eprintln!("underpass: {} {why}; aborting", kind.name());
    std::process::abort();
}

#[inline]
pub(crate) fn resumes(own: &'static Scheduler, control: &'static Control) {
    if set() {
        call(own, control, |hook, id| hook.resumes(id));
    }
}

#[inline]
pub(crate) fn pauses(own: &'static Scheduler, control: &'static Control) {
    if set() {
        call(own, control, |hook, id| hook.pauses(id));
    }
}
