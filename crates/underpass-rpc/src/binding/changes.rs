//! Waiting for a change in this process's surroundings: another domain has taken a name over, or a
//! signal has come.
//!
//! The clerk hears of it and wakes the waiters. Each waiter then looks whether its own change has
//! come.

use std::sync::PoisonError;
use std::time::Duration;
use underpass_sync::{Condvar, Mutex, MutexGuard};

/// How many hints have come.
static HINTS: Mutex<u64> = Mutex::new(0);
static CAME: Condvar = Condvar::new();

fn hints() -> MutexGuard<'static, u64> {
    HINTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something may have changed: has every waiter look.
pub(crate) fn hint() {
    *hints() += 1;
    CAME.notify_all();
}

/// Waits until `change` finds something, and gives that. It looks after each hint, and after each
/// `glance` without one.
///
/// A hint that comes during a look is counted, so the next wait ends at once.
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
    fn waiters_of_both_kinds_look_after_each_hint() {
        const NEVER: Duration = Duration::from_secs(3600);
        let came = Arc::new(AtomicBool::new(false));
        let wait = || {
            let came = came.clone();
            move || wait_for(NEVER, || came.load(Ordering::SeqCst).then_some(7))
        };
        let (kernel, user) = (std::thread::spawn(wait()), underpass_threads::spawn(wait()));
        hint();
        came.store(true, Ordering::SeqCst);
        hint();
        assert_eq!((kernel.join().unwrap(), user.join().unwrap()), (7, 7));
    }
}
