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

/// Calls the hook for `control`, as a plain kernel thread: the hook finds no user-level thread here
/// that it could suspend.
#[cold]
fn call(own: &'static Scheduler, control: &'static Control, what: fn(&dyn Switches, ThreadId)) {
    let Some(hook) = HOOK.get() else { return };
    let current = own.outside.current.get();
    own.outside.current.clear();
    own.hook.set(true);
    let called = catch_unwind(AssertUnwindSafe(|| what(*hook, ThreadId(control.id()))));
    own.hook.set(false);
    if let Some(current) = current {
        own.outside.current.set(current);
        if own.busy() {
            // The hook has made other threads ready, which does not wake the monitor while no
            // thread runs.
            Pool::wake_monitor();
        }
    }
    if called.is_err() {
        refuse(format_args!("has panicked. Catch panics in it"));
    }
}

/// Ends the process if a hook runs here: its kernel thread is about to wait for `wait`.
pub(crate) fn refuse_waiting(wait: &dyn Wait) {
    if scheduler::with(|own| own.hook.get()) == Some(true) {
        let kind = wait.describe().kind;
        refuse(format_args!(
            "waits for {kind}, which is not allowed there. Take a lock of `std` for moments, or `try_lock`"
        ));
    }
}

fn refuse(why: fmt::Arguments<'_>) -> ! {
    eprintln!(
        "underpass: a watcher of switches (`Switches`, or a layer beside `underpass_tracing::Follow`) {why}; aborting"
    );
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
