//! A hybrid lock, as another domain has it.

use crate::errors::ObjectImportError;
use crate::invoke::masked;
use crate::lock::errors::HybridFailure;
use crate::lock::hold::{HeldSide, HybridHoldResult, HybridLockResult, guarded, manual};
use crate::lock::hybrid_home::shape;
use crate::lock::hybrid_word::{FoundData, HybridLook};
use crate::lock::joined::LockedRemote;
use crate::lock::layout::words_of;
use crate::lock::wait::wait_for;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use underpass_os::failpoint;
use underpass_shared::Shareable;

/// Data of another domain that this one writes where they lie: remote access under the hybrid lock
/// of Psyche's Figure 1. Clones are the same object.
///
/// The home trusts this domain with the data, and with its waits.
///
/// # Examples
/// See the [module](super).
pub struct HybridObject<T: Shareable> {
    locked: Arc<LockedRemote>,
    data: PhantomData<fn() -> T>,
}

impl<T: Shareable> HybridObject<T> {
    /// Imports the object `name`.
    ///
    /// # Errors
    /// [`ObjectImportError`], each variant with its remedy.
    pub fn import(name: &str) -> Result<Self, ObjectImportError> {
        let locked = LockedRemote::import(name, words_of(size_of::<T>()), shape::<T>())?;
        Ok(Self { locked: Arc::new(locked), data: PhantomData })
    }

    /// As [`import`](Self::import), but waits up to `patience` for the home.
    ///
    /// # Errors
    /// As [`import`](Self::import).
    pub fn import_within(name: &str, patience: Duration) -> Result<Self, ObjectImportError> {
        let locked = LockedRemote::import_within(name, patience, words_of(size_of::<T>()), shape::<T>())?;
        Ok(Self { locked: Arc::new(locked), data: PhantomData })
    }

    /// Takes the lock, until the guard is dropped. It waits at most for `within`, and as long as
    /// the home urgently needs the lock.
    ///
    /// # Errors
    /// [`OwnerDied`](super::HybridLockError::OwnerDied): the lock is taken, repair the data.
    /// [`Failed`](super::HybridLockError::Failed): it is not, see [`HybridFailure`].
    #[inline]
    pub fn lock(&self, within: Duration) -> HybridLockResult<'_, T> {
        guarded(HeldSide::Elsewhere(&self.locked), self.take(Some(within))?)
    }

    /// As [`lock`](Self::lock), if nobody has the lock or urgently needs it.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), with [`WouldBlock`](HybridFailure::WouldBlock).
    #[inline]
    pub fn try_lock(&self) -> HybridLockResult<'_, T> {
        guarded(HeldSide::Elsewhere(&self.locked), self.take(None)?)
    }

    /// Takes the lock, until the hold is released: the manual form.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    #[inline]
    pub fn acquire(&self, within: Duration) -> HybridHoldResult<'_, T> {
        manual(HeldSide::Elsewhere(&self.locked), self.take(Some(within))?)
    }

    /// R1 to R3.
    #[inline]
    fn take(&self, within: Option<Duration>) -> Result<FoundData, HybridFailure> {
        if masked::is_masked() {
            return Err(HybridFailure::Masked);
        }
        if let Some(why) = self.locked.ended() {
            return Err(why);
        }
        failpoint!("hybrid-remote-looks");
        let (word, me) = (self.locked.lock(), self.locked.number);
        let look = match (word.try_remote(me), within) {
            (HybridLook::Busy, None) => return Err(HybridFailure::WouldBlock),
            (HybridLook::Busy, Some(within)) => {
                let look = || match word.try_remote(me) {
                    HybridLook::Busy => None,
                    look => Some(look),
                };
                wait_for(within, look, || self.locked.ended())?
            }
            (look, _) => look,
        };
        let HybridLook::Got(found) = look else { return Err(HybridFailure::Poisoned) };
        failpoint!("hybrid-remote-locked");
        masked::hold();
        Ok(found)
    }
}

impl<T: Shareable> Clone for HybridObject<T> {
    fn clone(&self) -> Self {
        Self { locked: self.locked.clone(), data: PhantomData }
    }
}

impl<T: Shareable> fmt::Debug for HybridObject<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HybridObject").finish_non_exhaustive()
    }
}
