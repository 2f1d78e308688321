//! Activations that the monitor found blocked in the kernel though their threads had not said so:
//! what the room that dispatches wants to know of them, to bound how many work for one user.

use crate::sched::activations;
use std::sync::OnceLock;

/// Told of activations that were found blocked.
///
/// The monitor calls these, and handlers of signals do: they take neither lock nor memory.
pub trait BlockedWatcher: Send + Sync {
    /// An activation was found blocked, or one that was is so no more.
    fn changed(&self);

    /// Whether all is done that follows from the changes so far. Until then no activation is called
    /// for calls that wait.
    fn settled(&self) -> bool;
}

static WATCHER: OnceLock<&'static dyn BlockedWatcher> = OnceLock::new();

/// Has `watcher` told from now on; `false` if another is told already.
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

/// The numbers of the threads that run on activations that were found blocked, as [`Line::serve`]
/// is told them. A thread that has just come back may be among them, or not.
///
/// # Examples
/// ```
/// assert!(underpass_threads::blocked().is_empty());
/// ```
///
/// [`Line::serve`]: underpass_processor::Line::serve
pub fn blocked() -> Vec<u64> {
    let blocked = activations::all().filter(|outside| outside.activation.is_blocked());
    blocked.filter_map(|outside| Some(outside.current.get()?.id())).collect()
}
