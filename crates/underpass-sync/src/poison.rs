//! Whether somebody panicked with a lock in hand.

use crate::runtime::{const_fn, panicking};
use std::sync::{LockResult, PoisonError};
use underpass_seam::atomic::{AtomicBool, Ordering};

/// A lock's mark that what it guards may be half changed.
pub(crate) struct Poison(AtomicBool);

/// One who has the lock: poisons it when dropped because of a panic that began meanwhile. What a
/// destructor does while another panic unwinds poisons nothing.
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

    /// The lock was taken. Drop the stake before it is released.
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

    /// `value` as the result that it is.
    #[inline]
    pub(crate) fn judge<T>(&self, value: T) -> LockResult<T> {
        match self.get() {
            false => Ok(value),
            true => Err(PoisonError::new(value)),
        }
    }
}
