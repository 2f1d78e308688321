//! A value that a lock keeps. All unsafe code about values is here; that about waiters is in
//! `queue.rs`.

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

/// `core`'s `UnsafeCell` with the face of loom's, or loom's.
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

/// A lock that one has at a time.
///
/// # Safety
/// From when `acquire` gave `true` until `release`, it gives `true` to nobody else; what was done
/// before `release` happens before what is done after the next `true`.
pub(crate) unsafe trait ExclusiveLock {
    /// Takes the lock; `false` if `limit` ended first.
    fn acquire(&self, limit: WaitLimit) -> bool;
    /// Gives it up, by who has it.
    fn release(&self);
}

/// A lock that many may share.
///
/// # Safety
/// As [`ExclusiveLock`], and while somebody has it by `acquire_shared`, nobody has it by `acquire`.
pub(crate) unsafe trait SharedLock: ExclusiveLock {
    fn acquire_shared(&self, limit: WaitLimit) -> bool;
    fn release_shared(&self);
    /// Turns the caller's own into a shared one.
    fn downgrade(&self);
}

// SAFETY: `README.md` proves it, and `tests/loom.rs` tries it.
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

/// A value, and the lock whose holders may touch it.
pub(crate) struct LockCell<L, T: ?Sized> {
    lock: L,
    value: UnsafeCell<T>,
}

// SAFETY: whoever has the lock has the value to itself, so it moves between threads at the most.
unsafe impl<T: ?Sized + Send> Sync for LockCell<RawMutex, T> {}
// SAFETY: as above, and sharers read it at the same time.
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
    /// The value, to itself; nothing if `limit` ended first.
    #[inline]
    pub(crate) fn acquire(&self, limit: WaitLimit) -> Option<ExclusiveAccess<'_, L, T>> {
        // Not `then_some`: a value that isn't handed out would be dropped, and release the lock.
        self.lock.acquire(limit).then(|| ExclusiveAccess { of: self, stays: PhantomData })
    }

    /// The value, to itself, after any wait.
    #[inline]
    pub(crate) fn acquire_blocking(&self) -> ExclusiveAccess<'_, L, T> {
        let acquired = self.lock.acquire(WaitLimit::Endless);
        assert!(acquired, "only a deadline ends the wait for a lock");
        ExclusiveAccess { of: self, stays: PhantomData }
    }
}

impl<L: SharedLock, T: ?Sized> LockCell<L, T> {
    /// The value, together with other readers.
    #[inline]
    pub(crate) fn acquire_shared(&self, limit: WaitLimit) -> Option<SharedAccess<'_, L, T>> {
        self.lock.acquire_shared(limit).then(|| SharedAccess { of: self, stays: PhantomData })
    }

    /// The value, together with other readers, after any wait.
    #[inline]
    pub(crate) fn acquire_shared_blocking(&self) -> SharedAccess<'_, L, T> {
        let acquired = self.lock.acquire_shared(WaitLimit::Endless);
        assert!(acquired, "only a deadline ends the wait for a lock");
        SharedAccess { of: self, stays: PhantomData }
    }
}

/// The value of a lock that the owner of this has, until dropped.
#[must_use]
pub(crate) struct ExclusiveAccess<'a, L: ExclusiveLock, T: ?Sized> {
    of: &'a LockCell<L, T>,
    stays: PhantomData<*mut T>,
}

// SAFETY: it gives others `&T`, no more.
unsafe impl<L: ExclusiveLock + Sync, T: ?Sized + Sync> Sync for ExclusiveAccess<'_, L, T> {}

impl<'a, L: ExclusiveLock, T: ?Sized> ExclusiveAccess<'a, L, T> {
    /// Keeps the lock, without the value.
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

/// The value of a lock that the owner of this shares, until dropped.
#[must_use]
pub(crate) struct SharedAccess<'a, L: SharedLock, T: ?Sized> {
    of: &'a LockCell<L, T>,
    stays: PhantomData<*mut T>,
}

// SAFETY: it gives others `&T`, no more.
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

/// The calling thread as a number with `holder::FREE_BITS` free, for a lock's word.
#[inline]
pub(crate) fn mark() -> usize {
    ptr::from_ref(me()).expose_provenance()
}

/// Whom [`mark`] gave this number for.
pub(crate) fn marked(mark: usize) -> Option<&'static Control> {
    // SAFETY: null, or exposed by `mark`; and control blocks are never freed.
    unsafe { ptr::with_exposed_provenance::<Control>(mark).as_ref() }
}
