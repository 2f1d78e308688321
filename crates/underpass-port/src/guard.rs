//! The lock of this crate's own state: a thread that waits for it blocks nothing else.

use std::sync::PoisonError;
use underpass_sync::{Mutex, MutexGuard};

/// Takes the lock. A panic of a user's code can't leave the state half changed: such code only
/// encodes into a reservation, which is dropped then.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
