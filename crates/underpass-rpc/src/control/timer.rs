//! Timers: closures that the clerk runs at a given time, so that no thread of this domain has to
//! sleep until then.

use crate::control::clerk::clerk;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use underpass_os::fork;
use underpass_threads::critical;

type Act = Box<dyn FnOnce() + Send>;

/// The closures by time, in ns of the clock, and number.
#[derive(Default)]
struct TimerQueue {
    next: u64,
    acts: BTreeMap<(u64, u64), Act>,
}

static TIMERS: Mutex<TimerQueue> = Mutex::new(TimerQueue { next: 0, acts: BTreeMap::new() });

/// The holder must be critical, so that it keeps its processor, because the clerk waits for this
/// lock.
fn timers() -> MutexGuard<'static, TimerQueue> {
    TIMERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A timer that was set.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClerkTimer(u64, u64);

/// Makes the clerk run `act` at `when_ns` or soon after. `act` must be short.
pub(crate) fn set(when_ns: u64, act: impl FnOnce() + Send + 'static) -> ClerkTimer {
    let act = Box::new(act);
    let held = critical();
    let mut timers = timers();
    timers.next += 1;
    let key = (when_ns, timers.next);
    let first = timers.acts.first_key_value().is_none_or(|(first, _)| key < *first);
    timers.acts.insert(key, act);
    drop(timers);
    drop(held);
    if first && let Ok(clerk) = clerk() {
        clerk.wake();
    }
    ClerkTimer(key.0, key.1)
}

impl ClerkTimer {
    /// Cancels the timer. It may have run already. In a forked child nobody runs it, and a thread
    /// that does not exist there may hold the lock for ever.
    pub(crate) fn cancel(self) {
        if fork::is_forked() {
            return;
        }
        let held = critical();
        let act = timers().acts.remove(&(self.0, self.1));
        drop(held);
        drop(act);
    }
}

/// The time of the next timer.
pub(crate) fn next() -> Option<u64> {
    let _held = critical();
    timers().acts.first_key_value().map(|((when, _), _)| *when)
}

/// Runs the timers that are due.
pub(crate) fn run_due(now_ns: u64) {
    loop {
        let held = critical();
        let mut timers = timers();
        let due =
            timers.acts.first_entry().filter(|entry| entry.key().0 <= now_ns).map(|entry| entry.remove());
        drop(timers);
        drop(held);
        match due {
            Some(act) => act(),
            None => return,
        }
    }
}
