//! A cell for what one thread at a time owns.

use std::cell::UnsafeCell;

/// Holds what only its owner touches. Who owns a field of a [`Control`](crate::Control) at what
/// time is said there.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Owned<T>(UnsafeCell<T>);

// SAFETY: every access goes through `get`, whose caller is the owner; ownership passes only by
// something that synchronizes.
unsafe impl<T> Sync for Owned<T> {}
// SAFETY: as above; what is in it may be dropped elsewhere than it was made only if its owner saw
// to that.
unsafe impl<T> Send for Owned<T> {}

impl<T> Owned<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// The value.
    ///
    /// # Safety
    /// The caller owns it now, and lets go of the reference before it calls anything that asks for
    /// it again.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn get(&self) -> &mut T {
        // SAFETY: the caller is the only one that touches it.
        unsafe { &mut *self.0.get() }
    }
}
