//! URPC's nonspinning lock (section 3.2.1): take it if it is free, or else do something else.

use crate::atomic::{AtomicBool, Ordering};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

#[cfg(not(underpass_loom))]
use core::cell::UnsafeCell;
#[cfg(underpass_loom)]
use loom::cell::UnsafeCell;

/// A test-and-set lock for which no thread ever waits.
///
/// It is private to one domain, so a peer's death can't leave it held.
///
/// # Examples
/// ```
/// let lock = underpass_seam::TryLock::new(1);
/// let held = lock.try_lock().unwrap();
/// assert!(lock.try_lock().is_none());
/// drop(held);
/// *lock.try_lock().unwrap() += 1;
/// ```
pub struct TryLock<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `taken` lets at most one thread at a time reach `value`. So `T` has to be movable between
// threads, and no more.
unsafe impl<T: Send> Sync for TryLock<T> {}
// SAFETY: it owns its value.
unsafe impl<T: Send> Send for TryLock<T> {}

impl<T> TryLock<T> {
    /// A free lock around `value`.
    pub fn new(value: T) -> Self {
        Self { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// The value. `None` if another thread holds the lock.
    #[inline]
    pub fn try_lock(&self) -> Option<TryLockGuard<'_, T>> {
        // Read first: a line that others hold is not written.
        if self.taken.load(Ordering::Relaxed) {
            return None;
        }
        // SYNC with `taken` store in `TryLockGuard::drop`: what the last holder did to the value.
        match self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Some(TryLockGuard { lock: self, stays: PhantomData }),
            Err(_) => None,
        }
    }
}

impl<T> std::fmt::Debug for TryLock<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TryLock").field("taken", &self.taken.load(Ordering::Relaxed)).finish_non_exhaustive()
    }
}

/// The guard of a [`TryLock`]. The lock is released when this is dropped.
#[derive(Debug)]
pub struct TryLockGuard<'a, T> {
    lock: &'a TryLock<T>,
    /// It gives out `&mut T`. Whether a shared guard would be sound has not been worked out, so it
    /// is neither shared nor sent.
    stays: PhantomData<*mut T>,
}

#[cfg(not(underpass_loom))]
impl<T> Deref for TryLockGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this value exists only while `taken` is ours.
        unsafe { &*self.lock.value.get() }
    }
}

#[cfg(not(underpass_loom))]
impl<T> DerefMut for TryLockGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `&mut self` makes this the only borrow.
        unsafe { &mut *self.lock.value.get() }
    }
}

#[cfg(underpass_loom)]
impl<T> Deref for TryLockGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this value exists only while `taken` is ours; loom checks that claim.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

#[cfg(underpass_loom)]
impl<T> DerefMut for TryLockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `&mut self` makes this the only borrow.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for TryLockGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SYNC with `taken` compare_exchange in `try_lock`: what we did to the value.
        self.lock.taken.store(false, Ordering::Release);
    }
}
