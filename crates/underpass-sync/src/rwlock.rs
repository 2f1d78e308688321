//! A reader-writer lock: a value for many readers or one writer.

use crate::lock_cell::{ExclusiveAccess, LockCell, SharedAccess};
use crate::poison::{Poison, PoisonOnPanic};
use crate::raw_rwlock::RawRwLock;
use crate::runtime::{WaitLimit, const_fn};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, TryLockError, TryLockResult};
use std::time::{Duration, Instant};

/// `std`'s reader-writer lock for user-level threads.
///
/// Readers that come while a writer waits wait too. When that writer has finished, all of them get
/// in before the next writer, so neither side starves. A thread that reads must not lock it for
/// reading again: if a writer waits in between, the thread waits for itself.
///
/// # Examples
/// ```
/// let lock = underpass::sync::RwLock::new(5);
/// {
///     let (one, other) = (lock.read().unwrap(), lock.read().unwrap());
///     assert_eq!((*one, *other), (5, 5));
///     assert!(lock.try_write().is_err());
/// }
/// *lock.write().unwrap() += 1;
/// assert_eq!(*lock.read().unwrap(), 6);
/// ```
pub struct RwLock<T: ?Sized> {
    poison: Poison,
    locked: LockCell<RawRwLock, T>,
}

/// Access to the value of a [`RwLock`] for a reader. The lock is released when this is dropped.
#[must_use = "a lock is released as soon as its guard is dropped"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    value: SharedAccess<'a, RawRwLock, T>,
}

/// Access to the value of a [`RwLock`] for a writer. The lock is released when this is dropped.
#[must_use = "a lock is released as soon as its guard is dropped"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    // Dropped in this order: the lock is poisoned before it is released.
    poison_on_panic: PoisonOnPanic<'a>,
    value: ExclusiveAccess<'a, RawRwLock, T>,
}

impl<T> RwLock<T> {
    const_fn! {
        /// An unlocked one around `value`.
        pub fn new(value: T) -> RwLock<T> {
            RwLock { poison: Poison::new(), locked: LockCell::new(RawRwLock::new(), value) }
        }
    }

    /// Its value.
    ///
    /// # Errors
    /// If a writer panicked. The value is in the error.
    pub fn into_inner(self) -> LockResult<T> {
        self.poison.judge(self.locked.into_inner())
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no writer has it, and locks it for reading.
    ///
    /// # Errors
    /// If a writer panicked. The guard is in the error.
    #[inline]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        self.poison.judge(RwLockReadGuard { value: self.locked.acquire_shared_blocking() })
    }

    /// Locks it for reading if no writer has it or waits for it.
    ///
    /// # Errors
    /// `WouldBlock` if a writer has it or waits for it, `Poisoned` as for [`read`](Self::read).
    #[inline]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        self.try_read_with(WaitLimit::None)
    }

    /// Waits until no writer has it, but no longer than `span`, and locks it for reading.
    ///
    /// # Errors
    /// `WouldBlock` if it did not become free in time, `Poisoned` as for [`read`](Self::read).
    pub fn try_read_for(&self, span: Duration) -> TryLockResult<RwLockReadGuard<'_, T>> {
        self.try_read_with(WaitLimit::of(span))
    }

    /// Waits until no writer has it, but not beyond `deadline`, and locks it for reading.
    ///
    /// # Errors
    /// As [`try_read_for`](Self::try_read_for).
    pub fn try_read_until(&self, deadline: Instant) -> TryLockResult<RwLockReadGuard<'_, T>> {
        self.try_read_with(WaitLimit::until(deadline))
    }

    fn try_read_with(&self, limit: WaitLimit) -> TryLockResult<RwLockReadGuard<'_, T>> {
        let value = self.locked.acquire_shared(limit).ok_or(TryLockError::WouldBlock)?;
        Ok(self.poison.judge(RwLockReadGuard { value })?)
    }

    /// Waits until no other thread has it, and locks it for writing.
    ///
    /// # Errors
    /// If a writer panicked. The guard is in the error.
    #[inline]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let value = self.locked.acquire_blocking();
        self.poison.judge(RwLockWriteGuard { poison_on_panic: self.poison.enter(), value })
    }

    /// Locks it for writing if no thread has it or waits for it.
    ///
    /// # Errors
    /// `WouldBlock` if a thread has it or waits for it, `Poisoned` as for [`write`](Self::write).
    #[inline]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        self.try_write_with(WaitLimit::None)
    }

    /// Waits until no other thread has it, but no longer than `span`, and locks it for writing.
    ///
    /// # Errors
    /// `WouldBlock` if it did not become free in time, `Poisoned` as for [`write`](Self::write).
    pub fn try_write_for(&self, span: Duration) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        self.try_write_with(WaitLimit::of(span))
    }

    /// Waits until no other thread has it, but not beyond `deadline`, and locks it for writing.
    ///
    /// # Errors
    /// As [`try_write_for`](Self::try_write_for).
    pub fn try_write_until(&self, deadline: Instant) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        self.try_write_with(WaitLimit::until(deadline))
    }

    fn try_write_with(&self, limit: WaitLimit) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        let value = self.locked.acquire(limit).ok_or(TryLockError::WouldBlock)?;
        Ok(self.poison.judge(RwLockWriteGuard { poison_on_panic: self.poison.enter(), value })?)
    }

    /// Whether a writer panicked.
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
    /// If a writer panicked. The reference is in the error.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.poison.judge(self.locked.get_mut())
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Turns the writer into a reader, and lets other readers in. No writer comes in between.
    ///
    /// # Examples
    /// ```
    /// use underpass::sync::{RwLock, RwLockWriteGuard};
    /// let lock = RwLock::new(0);
    /// let mut writer = lock.write().unwrap();
    /// *writer = 1;
    /// let reader = RwLockWriteGuard::downgrade(writer);
    /// assert_eq!((*reader, *lock.read().unwrap()), (1, 1));
    /// ```
    pub fn downgrade(this: Self) -> RwLockReadGuard<'a, T> {
        drop(this.poison_on_panic);
        RwLockReadGuard { value: this.value.downgrade() }
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RwLock");
        match self.try_read() {
            Ok(guard) => shown.field("data", &&*guard),
            Err(TryLockError::Poisoned(guard)) => shown.field("data", &&**guard.get_ref()),
            Err(TryLockError::WouldBlock) => shown.field("data", &format_args!("<locked>")),
        };
        shown.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}
