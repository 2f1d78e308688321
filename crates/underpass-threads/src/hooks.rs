//! What others want to know of each switch, such as who follows a thread's spans.

use crate::control::Control;
use crate::handle::{Thread, ThreadId};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Told of each switch, on the kernel thread on which it happens.
///
/// Called by the scheduler: it must not block, yield, panic, or start a thread.
pub trait Switches: Send + Sync {
    /// The thread is about to run.
    fn resumes(&self, thread: ThreadId);
    /// The thread has stopped running, for now or for good.
    fn pauses(&self, thread: ThreadId);
}

static SET: AtomicBool = AtomicBool::new(false);
static HOOK: OnceLock<&'static dyn Switches> = OnceLock::new();

/// Has `switches` told of each switch from now on; `false` if another is told already.
pub fn watch_switches(switches: &'static dyn Switches) -> bool {
    let first = HOOK.set(switches).is_ok();
    if first {
        // SYNC with `SET` load in `call`: a hint; the hook comes by its own lock.
        SET.store(true, Ordering::Release);
    }
    first
}

/// Whether anybody is told.
#[inline]
pub(crate) fn set() -> bool {
    // Relaxed: one who looks sees it sooner or later.
    SET.load(Ordering::Relaxed)
}

#[cold]
fn call(control: &Control, what: fn(&dyn Switches, ThreadId)) {
    if let Some(hook) = HOOK.get() {
        what(*hook, ThreadId(control.id()));
    }
}

#[inline]
pub(crate) fn resumes(control: &'static Control) {
    if set() {
        call(control, |hook, id| hook.resumes(id));
    }
}

#[inline]
pub(crate) fn pauses(control: &'static Control) {
    if set() {
        call(control, |hook, id| hook.pauses(id));
    }
}

/// The calling thread's number, without a handle.
pub fn current_id() -> ThreadId {
    ThreadId(crate::current::control().id())
}

impl From<&Thread> for ThreadId {
    fn from(thread: &Thread) -> Self {
        thread.id()
    }
}
