//! Locks that are held for a few instructions, and never while a thread is suspended.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use underpass_threads::{CriticalSection, critical};

/// The guard of a lock. Its holder is not preempted, since others, the reactor among them, would
/// wait for it in the kernel.
pub(crate) struct CriticalGuard<'a, T> {
    /// Dropped before `_critical`: a delayed preemption comes when the lock is free.
    guard: MutexGuard<'a, T>,
    _critical: CriticalSection,
}

/// Takes the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> CriticalGuard<'_, T> {
    let critical = critical();
    // A panic can't leave the value half changed: nothing panics between two changes that belong
    // together.
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
