//! A cell for a value that one thread at a time owns.

use std::cell::UnsafeCell;

/// Holds a value that only its owner touches. [`Control`](crate::Control) says who owns each of its
/// fields at what time.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Owned<T>(UnsafeCell<T>);

// SAFETY: every access goes through `get`, and its caller is the owner. Ownership passes only by
// something that synchronizes.
unsafe impl<T> Sync for Owned<T> {}
// SAFETY: as above. The value is dropped on another thread than the one that made it only if its
// owner has allowed that.
unsafe impl<T> Send for Owned<T> {}

impl<T> Owned<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// The value.
    ///
    /// # Safety
    /// The caller owns the value now, and drops the reference before it calls anything that asks
    /// for it again.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn get(&self) -> &mut T {
        // SAFETY: nobody but the caller touches it.
        unsafe { &mut *self.0.get() }
    }
}
