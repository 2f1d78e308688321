//! A hybrid lock at home.

use crate::invoke::InvocationHandlers;
use crate::invoke::home::InterruptedHome;
use crate::lock::errors::HybridFailure;
use crate::lock::hold::{HeldSide, HybridHoldResult, HybridLockResult, guarded, manual};
use crate::lock::hybrid_word::{FoundData, HybridLook};
use crate::lock::layout::{DATA, VERSION, words_of};
use crate::lock::remotes::LockedHome;
use crate::lock::wait::wait_for;
use crate::words::WritableWords;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use underpass_os::{failpoint, fork};
use underpass_rpc::Service;
use underpass_shared::{Shareable, bytes_of, mix, shape_of};

/// On what a home and its remotes must agree.
pub(crate) fn shape<T: Shareable>() -> u64 {
    mix(mix(mix(shape_of("hybrid"), T::SHAPE), size_of::<T>() as u64), VERSION)
}

/// The home of data that other domains write where they lie, and that handlers of this home change
/// as well: under the hybrid lock of Psyche's Figure 1. Clones are the same home.
///
/// To take the lock masks the home's interrupts, and says that the lock is urgently needed: no
/// other domain takes it before. So a thread of the home waits for one other domain at most.
///
/// # Examples
/// See the [module](super).
pub struct HybridHome<T: Shareable> {
    locked: Arc<LockedHome>,
    interrupted: Arc<InterruptedHome>,
    data: PhantomData<fn() -> T>,
}

impl<T: Shareable> HybridHome<T> {
    /// Makes an object with the data `initial`. Its lock masks the interrupts of `handlers`. Export
    /// the service under the object's name: it has `authorize`, expiry and revocation as every
    /// [`Service`] has. The object ends with the service.
    ///
    /// # Errors
    /// There is no memory, or too many files are open.
    pub fn new(initial: T, handlers: &InvocationHandlers) -> io::Result<(Service, Self)> {
        let (service, locked) = LockedHome::serve(words_of(size_of::<T>()), shape::<T>(), 0)?;
        locked.words.write(DATA, bytes_of(&initial));
        Ok((service, Self { locked, interrupted: handlers.interrupted(), data: PhantomData }))
    }

    /// Takes the lock, until the guard is dropped. It waits at most for `within`. In a handler,
    /// keep that short: all other handlers wait, too.
    ///
    /// # Errors
    /// [`OwnerDied`](super::HybridLockError::OwnerDied): the lock is taken, repair the data.
    /// [`Failed`](super::HybridLockError::Failed): it is not, see [`HybridFailure`].
    #[inline]
    pub fn lock(&self, within: Duration) -> HybridLockResult<'_, T> {
        let (held, found) = self.take(Some(within))?;
        guarded(held, found)
    }

    /// As [`lock`](Self::lock), if nobody has the lock.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), with [`WouldBlock`](HybridFailure::WouldBlock).
    #[inline]
    pub fn try_lock(&self) -> HybridLockResult<'_, T> {
        let (held, found) = self.take(None)?;
        guarded(held, found)
    }

    /// Takes the lock, until the hold is released: the manual form.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    #[inline]
    pub fn acquire(&self, within: Duration) -> HybridHoldResult<'_, T> {
        let (held, found) = self.take(Some(within))?;
        manual(held, found)
    }

    /// L1 to L6.
    #[inline]
    fn take(&self, within: Option<Duration>) -> Result<(HeldSide<'_>, FoundData), HybridFailure> {
        if fork::is_forked() {
            return Err(HybridFailure::Forked);
        }
        if !self.interrupted.may_mask() {
            return Err(HybridFailure::Masked);
        }
        self.interrupted.begin_section();
        failpoint!("hybrid-home-masked");
        let taken = match (self.locked.lock().try_home(false), within) {
            (HybridLook::Got(found), _) => Ok(found),
            (HybridLook::Poisoned, _) => Err(HybridFailure::Poisoned),
            (HybridLook::Busy, None) => Err(HybridFailure::WouldBlock),
            (HybridLook::Busy, Some(within)) => self.take_urgently(within),
        };
        match taken {
            Ok(found) => {
                failpoint!("hybrid-home-locked");
                Ok((HeldSide::AtHome(&self.locked, &self.interrupted), found))
            }
            Err(why) => {
                self.interrupted.end_section();
                Err(why)
            }
        }
    }

    /// L3 to L6.
    #[cold]
    fn take_urgently(&self, within: Duration) -> Result<FoundData, HybridFailure> {
        let word = self.locked.lock();
        let counted = word.urge();
        failpoint!("hybrid-home-urgent");
        let look = || match word.try_home(counted) {
            HybridLook::Busy => None,
            look => Some(look),
        };
        let failed = match wait_for(within, look, || None) {
            Ok(HybridLook::Got(found)) => return Ok(found),
            Ok(_) => HybridFailure::Poisoned,
            Err(why) => why,
        };
        if counted {
            word.calm();
        }
        Err(failed)
    }
}

impl<T: Shareable> Clone for HybridHome<T> {
    fn clone(&self) -> Self {
        Self { locked: self.locked.clone(), interrupted: self.interrupted.clone(), data: PhantomData }
    }
}

impl<T: Shareable> fmt::Debug for HybridHome<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HybridHome").finish_non_exhaustive()
    }
}
