//! A mutex: a value for one thread at a time.

use crate::lock_cell::{ExclusiveAccess, LockCell};
use crate::poison::{Poison, PoisonOnPanic};
use crate::raw_mutex::RawMutex;
use crate::runtime::{WaitLimit, const_fn};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, TryLockError, TryLockResult};
use std::time::{Duration, Instant};

/// `std`'s mutex for user-level threads. A thread that waits blocks only itself, and no other
/// thread of its activation.
///
/// It is not fair, but it is handed over to a waiter that others have overtaken a few times.
/// Cancellation does not end a wait. As in `std`, it is poisoned when a thread panics while it
/// holds the guard.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use underpass::sync::Mutex;
/// use underpass::thread;
///
/// let sum = Arc::new(Mutex::new(0));
/// let threads: Vec<_> = (1..=10)
///     .map(|n| {
///         let sum = sum.clone();
///         thread::spawn(move || *sum.lock().unwrap() += n)
///     })
///     .collect();
/// threads.into_iter().for_each(|thread| thread.join().unwrap());
/// assert_eq!(*sum.lock().unwrap(), 55);
/// ```
pub struct Mutex<T: ?Sized> {
    poison: Poison,
    locked: LockCell<RawMutex, T>,
}

/// Access to the value of a [`Mutex`], which is unlocked when this is dropped.
#[must_use = "a mutex is unlocked as soon as its guard is dropped"]
pub struct MutexGuard<'a, T: ?Sized> {
    // Dropped in this order: the mutex is poisoned before it is unlocked.
    poison_on_panic: PoisonOnPanic<'a>,
    value: ExclusiveAccess<'a, RawMutex, T>,
}

impl<T> Mutex<T> {
    const_fn! {
        /// An unlocked mutex around `value`.
        pub fn new(value: T) -> Mutex<T> {
            Mutex { poison: Poison::new(), locked: LockCell::new(RawMutex::new(), value) }
        }
    }

    /// Its value.
    ///
    /// # Errors
    /// If a thread panicked while it held the mutex. The value is in the error.
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.poison;
        poisoned.judge(self.locked.into_inner())
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until no other thread has it, and locks it.
    ///
    /// # Errors
    /// If a thread panicked while it held the mutex. The guard is in the error.
    ///
    /// # Examples
    /// ```
    /// let mutex = underpass::sync::Mutex::new(1);
    /// *mutex.lock().unwrap() += 1;
    /// assert_eq!(mutex.into_inner().unwrap(), 2);
    /// ```
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.guard(self.locked.acquire_blocking())
    }

    /// Locks it if it is free.
    ///
    /// # Errors
    /// `WouldBlock` if it is not free, `Poisoned` as for [`lock`](Self::lock).
    #[inline]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        self.try_for(WaitLimit::None)
    }

    /// Waits for it, but no longer than `span`, and locks it.
    ///
    /// # Errors
    /// `WouldBlock` if it did not become free in time, `Poisoned` as for [`lock`](Self::lock).
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// let mutex = underpass::sync::Mutex::new(());
    /// let guard = mutex.lock().unwrap();
    /// assert!(mutex.try_lock_for(Duration::from_millis(1)).is_err());
    /// drop(guard);
    /// assert!(mutex.try_lock_for(Duration::from_millis(1)).is_ok());
    /// ```
    pub fn try_lock_for(&self, span: Duration) -> TryLockResult<MutexGuard<'_, T>> {
        self.try_for(WaitLimit::of(span))
    }

    /// Waits for it, but not beyond `deadline`, and locks it.
    ///
    /// # Errors
    /// As [`try_lock_for`](Self::try_lock_for).
    pub fn try_lock_until(&self, deadline: Instant) -> TryLockResult<MutexGuard<'_, T>> {
        self.try_for(WaitLimit::until(deadline))
    }

    fn try_for(&self, limit: WaitLimit) -> TryLockResult<MutexGuard<'_, T>> {
        let value = self.locked.acquire(limit).ok_or(TryLockError::WouldBlock)?;
        Ok(self.guard(value)?)
    }

    /// Whether a thread panicked while it held the mutex.
    #[inline]
    pub fn is_poisoned(&self) -> bool {
        self.poison.get()
    }

    /// Declares the value valid again after a panic.
    #[inline]
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    /// Its value, without locking: the exclusive reference shows that no other thread has it.
    ///
    /// # Errors
    /// If a thread panicked while it held the mutex. The reference is in the error.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let value = self.locked.get_mut();
        self.poison.judge(value)
    }

    #[inline]
    fn guard<'a>(&'a self, value: ExclusiveAccess<'a, RawMutex, T>) -> LockResult<MutexGuard<'a, T>> {
        UnguardedMutex { poison: &self.poison, locked: &self.locked }.guard(value)
    }
}

/// A locked mutex without a guard, so that nothing refers to its value.
pub(crate) struct UnguardedMutex<'a, T: ?Sized> {
    poison: &'a Poison,
    locked: &'a LockCell<RawMutex, T>,
}

impl<'a, T: ?Sized> UnguardedMutex<'a, T> {
    #[inline]
    fn guard(&self, value: ExclusiveAccess<'a, RawMutex, T>) -> LockResult<MutexGuard<'a, T>> {
        self.poison.judge(MutexGuard { poison_on_panic: self.poison.enter(), value })
    }

    /// The lock, to be released once.
    pub(crate) fn lock(&self) -> &'a RawMutex {
        self.locked.lock()
    }

    /// Waits for the lock again.
    pub(crate) fn lock_again(&self) -> LockResult<MutexGuard<'a, T>> {
        self.guard(self.locked.acquire_blocking())
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Keeps the mutex locked, for a caller that will release the lock and take it again.
    pub(crate) fn into_unguarded(self) -> UnguardedMutex<'a, T> {
        UnguardedMutex { poison: self.poison_on_panic.poison(), locked: self.value.leave() }
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Mutex");
        match self.try_lock() {
            Ok(guard) => shown.field("data", &&*guard),
            Err(TryLockError::Poisoned(guard)) => shown.field("data", &&**guard.get_ref()),
            Err(TryLockError::WouldBlock) => shown.field("data", &format_args!("<locked>")),
        };
        shown.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}
