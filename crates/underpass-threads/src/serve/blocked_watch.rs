//! Activations that the monitor found blocked in the kernel although their threads had not
//! announced it. The crate that dispatches watches them, to bound how many work for one user.

use crate::sched::activations;
use std::sync::OnceLock;

/// Is notified of activations that were found blocked.
///
/// The monitor and signal handlers call these methods, so they take neither locks nor memory.
pub trait BlockedWatcher: Send + Sync {
    /// An activation was found blocked, or is blocked no more.
    fn changed(&self);

    /// Whether everything that follows from the changes so far is done. Until then no activation is
    /// woken for calls that wait.
    fn settled(&self) -> bool;
}

static WATCHER: OnceLock<&'static dyn BlockedWatcher> = OnceLock::new();

/// Notifies `watcher` from now on. `false`: another watcher is set already.
pub fn watch_blocked(watcher: &'static dyn BlockedWatcher) -> bool {
    WATCHER.set(watcher).is_ok()
}

pub(crate) fn changed() {
    if let Some(watcher) = WATCHER.get() {
        watcher.changed();
    }
}

pub(crate) fn settled() -> bool {
    WATCHER.get().is_none_or(|watcher| watcher.settled())
}

/// The numbers of the threads that run on activations that were found blocked. [`Line::serve`] gets
/// the same numbers. A thread that has just come back may be among them, or not.
///
/// # Examples
/// ```
/// assert!(underpass_threads::blocked().is_empty());
/// ```
///
/// [`Line::serve`]: underpass_processor::PolledLine::serve
pub fn blocked() -> Vec<u64> {
    let blocked = activations::all().filter(|outside| outside.activation.is_blocked());
    blocked.filter_map(|outside| Some(outside.current.get()?.id())).collect()
}
