//! Poisoning: whether a thread panicked while it held a lock.

use crate::runtime::{const_fn, panicking};
use std::sync::{LockResult, PoisonError};
use underpass_seam::atomic::{AtomicBool, Ordering};

/// The mark of a lock whose value may be half changed.
pub(crate) struct Poison(AtomicBool);

/// A holder of the lock. If a panic began while it held the lock, its drop poisons the lock. A
/// destructor that uses the lock during an earlier panic does not poison it.
pub(crate) struct PoisonOnPanic<'a> {
    poison: &'a Poison,
    unwound: bool,
}

impl<'a> PoisonOnPanic<'a> {
    pub(crate) fn poison(&self) -> &'a Poison {
        self.poison
    }
}

impl Drop for PoisonOnPanic<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.unwound && panicking() {
            // Relaxed, as everywhere here: the lock orders it.
            self.poison.0.store(true, Ordering::Relaxed);
        }
    }
}

impl Poison {
    const_fn! {
        pub(crate) fn new() -> Poison {
            Poison(AtomicBool::new(false))
        }
    }

    /// Call it when the lock was taken. Drop the result before the lock is released.
    #[inline]
    pub(crate) fn enter(&self) -> PoisonOnPanic<'_> {
        PoisonOnPanic { poison: self, unwound: panicking() }
    }

    #[inline]
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// `value` as a result: an error if the lock is poisoned.
    #[inline]
    pub(crate) fn judge<T>(&self, value: T) -> LockResult<T> {
        match self.get() {
            false => Ok(value),
            true => Err(PoisonError::new(value)),
        }
    }
}
