//! Waiting for an event that may end a server: another domain has taken over its names, or a signal
//! has come.
//!
//! The clerk learns of the event and wakes all waiters. Each waiter then checks whether its own
//! event has happened.

use std::sync::PoisonError;
use std::time::Duration;
use underpass_sync::{Condvar, Mutex, MutexGuard};

/// How many hints the clerk has given.
static HINTS: Mutex<u64> = Mutex::new(0);
static CAME: Condvar = Condvar::new();

fn hints() -> MutexGuard<'static, u64> {
    HINTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something may have changed: wakes every waiter, so that it checks.
pub(crate) fn notify() {
    *hints() += 1;
    CAME.notify_all();
}

/// Waits until `change` returns a value, and returns that value. Calls `change` once for each hint,
/// and after each `glance` without a hint.
///
/// A hint that comes while `change` runs is counted, so the next wait ends at once.
pub(crate) fn wait_for<T>(glance: Duration, mut change: impl FnMut() -> Option<T>) -> T {
    loop {
        let seen = *hints();
        if let Some(found) = change() {
            return found;
        }
        let waited = CAME.wait_timeout_while(hints(), glance, |hints| *hints == seen);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn kernel_and_user_threads_check_after_each_hint() {
        const NEVER: Duration = Duration::from_secs(3600);
        let came = Arc::new(AtomicBool::new(false));
        let wait = || {
            let came = came.clone();
            move || wait_for(NEVER, || came.load(Ordering::SeqCst).then_some(7))
        };
        let (kernel, user) = (std::thread::spawn(wait()), underpass_threads::spawn(wait()));
        notify();
        came.store(true, Ordering::SeqCst);
        notify();
        assert_eq!((kernel.join().unwrap(), user.join().unwrap()), (7, 7));
    }
}
