//! Locks that are held for a few steps, and never while a thread pauses.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use underpass_threads::{CriticalSection, critical};

/// What a lock guards. The holder is not preempted: others, the reactor among them, would wait for
/// it in the kernel.
pub(crate) struct CriticalGuard<'a, T> {
    /// Goes before `_critical`: a preemption that was held off comes when the lock is free.
    guard: MutexGuard<'a, T>,
    _critical: CriticalSection,
}

/// Takes the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> CriticalGuard<'_, T> {
    let critical = critical();
    // A panic can't leave these half changed: nothing between two changes of one step panics.
    CriticalGuard { guard: mutex.lock().unwrap_or_else(PoisonError::into_inner), _critical: critical }
}

impl<T> Deref for CriticalGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for CriticalGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
