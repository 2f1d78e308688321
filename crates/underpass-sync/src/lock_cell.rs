//! A value under a lock. All unsafe code about values is here; that about waiters is in
//! `wait_queue.rs`.

use crate::raw_mutex::RawMutex;
use crate::raw_rwlock::RawRwLock;
use crate::runtime::{Control, WaitLimit, const_fn, me};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr;

#[cfg(not(underpass_loom))]
use core::cell::UnsafeCell as UnsafeInner;
#[cfg(underpass_loom)]
use loom::cell::UnsafeCell as UnsafeInner;

/// Loom's `UnsafeCell` in models; otherwise `core`'s with the interface of loom's.
pub(crate) struct UnsafeCell<T: ?Sized>(UnsafeInner<T>);

impl<T> UnsafeCell<T> {
    const_fn! {
        pub(crate) fn new(value: T) -> UnsafeCell<T> {
            UnsafeCell(UnsafeInner::new(value))
        }
    }

    #[inline]
    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> UnsafeCell<T> {
    #[inline]
    pub(crate) fn with<R>(&self, with: impl FnOnce(*const T) -> R) -> R {
        #[cfg(not(underpass_loom))]
        return with(self.0.get());
        #[cfg(underpass_loom)]
        self.0.with(with)
    }

    #[inline]
    pub(crate) fn with_mut<R>(&self, with: impl FnOnce(*mut T) -> R) -> R {
        #[cfg(not(underpass_loom))]
        return with(self.0.get());
        #[cfg(underpass_loom)]
        self.0.with_mut(with)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self) -> &mut T {
        // SAFETY: it is borrowed mutably.
        self.with_mut(|value| unsafe { &mut *value })
    }
}

/// A lock with one holder at a time.
///
/// # Safety
/// From the moment when `acquire` returns `true` until `release`, `acquire` returns `true` to no
/// other thread. What was done before `release` happens before what is done after the next `true`.
pub(crate) unsafe trait ExclusiveLock {
    /// Takes the lock. `false` if `limit` ended first.
    fn acquire(&self, limit: WaitLimit) -> bool;
    /// Gives the lock up. Only its holder may call this.
    fn release(&self);
}

/// A lock with one writer or many readers.
///
/// # Safety
/// As [`ExclusiveLock`]. While a thread has the lock by `acquire_shared`, no thread has it by
/// `acquire`.
pub(crate) unsafe trait SharedLock: ExclusiveLock {
    fn acquire_shared(&self, limit: WaitLimit) -> bool;
    fn release_shared(&self);
    /// Turns the caller's exclusive hold into a shared one.
    fn downgrade(&self);
}

// SAFETY: `README.md` proves it, and `tests/it/loom.rs` checks it.
unsafe impl ExclusiveLock for RawMutex {
    #[inline]
    fn acquire(&self, limit: WaitLimit) -> bool {
        RawMutex::acquire(self, limit)
    }

    #[inline]
    fn release(&self) {
        RawMutex::release(self);
    }
}

// SAFETY: as above.
unsafe impl ExclusiveLock for RawRwLock {
    #[inline]
    fn acquire(&self, limit: WaitLimit) -> bool {
        RawRwLock::acquire(self, limit)
    }

    #[inline]
    fn release(&self) {
        RawRwLock::release(self);
    }
}

// SAFETY: as above.
unsafe impl SharedLock for RawRwLock {
    #[inline]
    fn acquire_shared(&self, limit: WaitLimit) -> bool {
        RawRwLock::acquire_shared(self, limit)
    }

    #[inline]
    fn release_shared(&self) {
        RawRwLock::release_shared(self);
    }

    #[inline]
    fn downgrade(&self) {
        RawRwLock::downgrade(self);
    }
}

/// A value, and the lock whose holders may access it.
pub(crate) struct LockCell<L, T: ?Sized> {
    lock: L,
    value: UnsafeCell<T>,
}

// SAFETY: a holder has the value to itself. So the value has to be movable between threads, and no
// more.
unsafe impl<T: ?Sized + Send> Sync for LockCell<RawMutex, T> {}
// SAFETY: as above; and several readers refer to it at the same time.
unsafe impl<T: ?Sized + Send + Sync> Sync for LockCell<RawRwLock, T> {}

impl<L, T> LockCell<L, T> {
    const_fn! {
        pub(crate) fn new(lock: L, value: T) -> LockCell<L, T> {
            LockCell { lock, value: UnsafeCell::new(value) }
        }
    }

    pub(crate) fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<L, T: ?Sized> LockCell<L, T> {
    #[inline]
    pub(crate) fn lock(&self) -> &L {
        &self.lock
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<L: ExclusiveLock, T: ?Sized> LockCell<L, T> {
    /// Exclusive access to the value. `None` if `limit` ended first.
    #[inline]
    pub(crate) fn acquire(&self, limit: WaitLimit) -> Option<ExclusiveAccess<'_, L, T>> {
        // Not `then_some`: that would construct the value even if the lock was not acquired, and
        // its drop would release the lock.
        self.lock.acquire(limit).then(|| ExclusiveAccess { of: self, stays: PhantomData })
    }

    /// Waits for exclusive access to the value.
    #[inline(always)]
    pub(crate) fn acquire_blocking(&self) -> ExclusiveAccess<'_, L, T> {
        let acquired = self.lock.acquire(WaitLimit::Endless);
        assert!(acquired, "only a deadline ends the wait for a lock");
        ExclusiveAccess { of: self, stays: PhantomData }
    }
}

impl<L: SharedLock, T: ?Sized> LockCell<L, T> {
    /// Access to the value together with other readers. `None` if `limit` ended first.
    #[inline]
    pub(crate) fn acquire_shared(&self, limit: WaitLimit) -> Option<SharedAccess<'_, L, T>> {
        self.lock.acquire_shared(limit).then(|| SharedAccess { of: self, stays: PhantomData })
    }

    /// Waits for access to the value together with other readers.
    #[inline]
    pub(crate) fn acquire_shared_blocking(&self) -> SharedAccess<'_, L, T> {
        let acquired = self.lock.acquire_shared(WaitLimit::Endless);
        assert!(acquired, "only a deadline ends the wait for a lock");
        SharedAccess { of: self, stays: PhantomData }
    }
}

/// Exclusive access to the value of a lock. The lock is released when this is dropped.
#[must_use]
pub(crate) struct ExclusiveAccess<'a, L: ExclusiveLock, T: ?Sized> {
    of: &'a LockCell<L, T>,
    stays: PhantomData<*mut T>,
}

// SAFETY: a shared reference to this gives out `&T` only.
unsafe impl<L: ExclusiveLock + Sync, T: ?Sized + Sync> Sync for ExclusiveAccess<'_, L, T> {}

impl<'a, L: ExclusiveLock, T: ?Sized> ExclusiveAccess<'a, L, T> {
    /// Keeps the lock held, and gives up the access to the value.
    pub(crate) fn leave(self) -> &'a LockCell<L, T> {
        std::mem::ManuallyDrop::new(self).of
    }
}

impl<'a, L: SharedLock, T: ?Sized> ExclusiveAccess<'a, L, T> {
    /// Lets other readers in.
    pub(crate) fn downgrade(self) -> SharedAccess<'a, L, T> {
        let of = self.leave();
        of.lock.downgrade();
        SharedAccess { of, stays: PhantomData }
    }
}

impl<L: ExclusiveLock, T: ?Sized> Deref for ExclusiveAccess<'_, L, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held as long as this value lives.
        self.of.value.with(|value| unsafe { &*value })
    }
}

impl<L: ExclusiveLock, T: ?Sized> DerefMut for ExclusiveAccess<'_, L, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and this value is borrowed mutably.
        self.of.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<L: ExclusiveLock, T: ?Sized> Drop for ExclusiveAccess<'_, L, T> {
    #[inline]
    fn drop(&mut self) {
        self.of.lock.release();
    }
}

/// Shared access to the value of a lock. The lock is released when this is dropped.
#[must_use]
pub(crate) struct SharedAccess<'a, L: SharedLock, T: ?Sized> {
    of: &'a LockCell<L, T>,
    stays: PhantomData<*mut T>,
}

// SAFETY: a shared reference to this gives out `&T` only.
unsafe impl<L: SharedLock + Sync, T: ?Sized + Sync> Sync for SharedAccess<'_, L, T> {}

impl<L: SharedLock, T: ?Sized> Deref for SharedAccess<'_, L, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is shared as long as this value lives, so nobody writes.
        self.of.value.with(|value| unsafe { &*value })
    }
}

impl<L: SharedLock, T: ?Sized> Drop for SharedAccess<'_, L, T> {
    #[inline]
    fn drop(&mut self) {
        self.of.lock.release_shared();
    }
}

/// The calling thread as a number whose `holder::FREE_BITS` are zero, for the word of a lock.
#[inline]
pub(crate) fn mark() -> usize {
    ptr::from_ref(me()).expose_provenance()
}

/// The thread for which [`mark`] returned this number.
pub(crate) fn marked(mark: usize) -> Option<&'static Control> {
    // SAFETY: null, or exposed by `mark`. Control blocks are never freed.
    unsafe { ptr::with_exposed_provenance::<Control>(mark).as_ref() }
}
