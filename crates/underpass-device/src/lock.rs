//! Locks that are held for a few instructions, and never while a thread is suspended.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use underpass_threads::{CriticalSection, critical};

/// A lock that is held. Its holder is not preempted, since the dispatcher and upcalls take these
/// locks too.
pub(crate) struct LockHeld<'a, T> {
    /// Dropped before `_critical`: a delayed preemption comes when the lock is free.
    guard: MutexGuard<'a, T>,
    _critical: CriticalSection,
}

/// Takes the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> LockHeld<'_, T> {
    let critical = critical();
    // A panic can't leave a value half changed: nothing panics between two changes that belong
    // together.
    LockHeld { guard: mutex.lock().unwrap_or_else(PoisonError::into_inner), _critical: critical }
}

impl<T> Deref for LockHeld<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for LockHeld<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
