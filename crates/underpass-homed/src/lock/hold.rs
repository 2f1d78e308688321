//! The right to a locked object's data: manual, and by the scope of a guard.

use crate::invoke::home::InterruptedHome;
use crate::invoke::masked;
use crate::lock::errors::{HybridFailure, HybridLockError};
use crate::lock::hybrid_word::{FoundData, HOME, LeftData};
use crate::lock::joined::LockedRemote;
use crate::lock::layout::DATA;
use crate::lock::remotes::LockedHome;
use crate::words::{AreaWords, ReadableWords, WritableWords};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use underpass_os::{failpoint, fork};
use underpass_shared::{Shareable, bytes_of, value_from};
use underpass_threads::panicking;

/// On which side a lock is held.
#[derive(Clone, Copy)]
pub(crate) enum HeldSide<'a> {
    /// The thread has masked.
    AtHome(&'a LockedHome, &'a InterruptedHome),
    Elsewhere(&'a LockedRemote),
}

impl HeldSide<'_> {
    fn words(&self) -> &AreaWords {
        match self {
            Self::AtHome(locked, _) => &locked.words,
            Self::Elsewhere(locked) => &locked.words,
        }
    }

    /// U1 and U2.
    fn release(self, left: LeftData) {
        // A forked child holds nothing.
        if fork::is_forked() {
            return;
        }
        match self {
            Self::AtHome(locked, interrupted) => {
                locked.lock().release(HOME, left);
                failpoint!("hybrid-home-released");
                interrupted.end_section();
            }
            Self::Elsewhere(locked) => {
                failpoint!("hybrid-remote-done");
                locked.lock().release(locked.number, left);
                failpoint!("hybrid-remote-released");
                masked::let_go();
            }
        }
    }
}

/// A hybrid lock that is held, in the manual form (Psyche, section 5.2): for critical sections
/// that span functions or do not nest. It is not released when this is dropped, but when it is
/// [released](Self::release), or when this domain ends.
///
/// It belongs to the thread that took the lock, which has masked if it is one of the home.
///
/// ```compile_fail,E0277
/// use underpass::homed::lock::HybridHold;
///
/// fn to_another_thread(hold: HybridHold<'static, u64>) {
///     std::thread::spawn(move || hold.release()); // It is of its thread.
/// }
/// ```
#[must_use = "the lock stays taken until it is released"]
pub struct HybridHold<'a, T: Shareable> {
    held: HeldSide<'a>,
    data: PhantomData<fn() -> T>,
    _of_its_thread: PhantomData<*mut ()>,
}

impl<'a, T: Shareable> HybridHold<'a, T> {
    pub(crate) fn new(held: HeldSide<'a>) -> Self {
        Self { held, data: PhantomData, _of_its_thread: PhantomData }
    }

    /// A copy of the data.
    ///
    /// # Errors
    /// [`Invalid`](HybridFailure::Invalid): the bytes are no value of the type.
    /// [`Forked`](HybridFailure::Forked).
    #[inline]
    pub fn get(&self) -> Result<T, HybridFailure> {
        if fork::is_forked() {
            return Err(HybridFailure::Forked);
        }
        value_from(|place| Ok::<_, HybridFailure>(self.held.words().read(DATA, place)))?
            .ok_or(HybridFailure::Invalid)
    }

    /// Overwrites the data. A forked child has none.
    #[inline]
    pub fn set(&mut self, value: T) {
        if !fork::is_forked() {
            self.held.words().write(DATA, bytes_of(&value));
        }
    }

    /// Changes the data: reads them, and writes what `change` makes of them.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn update(&mut self, change: impl FnOnce(&mut T)) -> Result<(), HybridFailure> {
        let mut value = self.get()?;
        change(&mut value);
        self.set(value);
        Ok(())
    }

    /// The address of the data, for data too large to copy. It is valid while the object is.
    ///
    /// Other domains can write there at any moment, whatever the lock says. So a reference to it is
    /// sound only if all of them are trusted, and only atomics and volatile or opaque copies are if
    /// they are not. The bytes may be no value of `T`.
    #[cfg(not(underpass_loom))]
    pub fn as_ptr(&self) -> *mut T {
        self.held.words().address(DATA, size_of::<T>()).cast()
    }

    /// Releases the lock. The data are whole.
    pub fn release(self) {
        self.held.release(LeftData::Whole);
    }

    /// Releases the lock. The next owner is told that the data are half changed.
    pub fn release_broken(self) {
        self.held.release(LeftData::Broken);
    }

    /// Releases the lock, and gives the data up: nobody gets it any more.
    pub fn poison(self) {
        self.held.release(LeftData::Poisoned);
    }

    fn leave(self, left: LeftData) {
        self.held.release(left);
    }
}

impl<T: Shareable> fmt::Debug for HybridHold<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HybridHold").finish_non_exhaustive()
    }
}

/// What taking a hybrid lock returns, in the manual form.
pub type HybridHoldResult<'a, T> = Result<HybridHold<'a, T>, HybridLockError<HybridHold<'a, T>>>;

/// What taking a hybrid lock returns.
pub type HybridLockResult<'a, T> = Result<HybridGuard<'a, T>, HybridLockError<HybridRecovery<'a, T>>>;

/// The hold, in the manual form.
pub(crate) fn manual<T: Shareable>(held: HeldSide<'_>, found: FoundData) -> HybridHoldResult<'_, T> {
    match found {
        FoundData::Whole => Ok(HybridHold::new(held)),
        FoundData::Broken => Err(HybridLockError::OwnerDied(HybridHold::new(held))),
    }
}

/// The hold, by a guard.
pub(crate) fn guarded<T: Shareable>(held: HeldSide<'_>, found: FoundData) -> HybridLockResult<'_, T> {
    let guard = HybridGuard { hold: Some(HybridHold::new(held)), left: LeftData::Whole };
    match found {
        FoundData::Whole => Ok(guard),
        FoundData::Broken => Err(HybridLockError::OwnerDied(HybridRecovery::of(guard))),
    }
}

/// A hybrid lock that is held until this is dropped: the constructor-based form (Psyche, section
/// 5.2). If the thread panics, the next owner is told.
#[must_use = "the lock is released at once if the guard is dropped"]
pub struct HybridGuard<'a, T: Shareable> {
    /// There until the guard is dropped.
    hold: Option<HybridHold<'a, T>>,
    left: LeftData,
}

impl<'a, T: Shareable> Deref for HybridGuard<'a, T> {
    type Target = HybridHold<'a, T>;

    fn deref(&self) -> &Self::Target {
        self.hold.as_ref().expect("it is there until the guard is dropped")
    }
}

impl<T: Shareable> DerefMut for HybridGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.hold.as_mut().expect("it is there until the guard is dropped")
    }
}

impl<T: Shareable> Drop for HybridGuard<'_, T> {
    fn drop(&mut self) {
        if self.left == LeftData::Whole && panicking() {
            self.left = LeftData::Broken;
        }
        if let Some(hold) = self.hold.take() {
            hold.leave(self.left);
        }
    }
}

impl<T: Shareable + fmt::Debug> fmt::Debug for HybridGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HybridGuard").field(&self.get()).finish()
    }
}

/// A hybrid lock that is held, with data whose last owner died or panicked in the middle of a
/// change. If it is dropped, the data are given up: everybody who wants the lock gets
/// [`Poisoned`](HybridFailure::Poisoned). If this domain dies first, the next owner is told as
/// this one was.
#[must_use = "the data are given up if this is dropped"]
pub struct HybridRecovery<'a, T: Shareable>(HybridGuard<'a, T>);

impl<'a, T: Shareable> HybridRecovery<'a, T> {
    fn of(mut guard: HybridGuard<'a, T>) -> Self {
        guard.left = LeftData::Poisoned;
        Self(guard)
    }

    /// The data are whole again, or were so all the time.
    pub fn repaired(self) -> HybridGuard<'a, T> {
        let mut guard = self.0;
        guard.left = LeftData::Whole;
        guard
    }

    /// Leaves the data to the next owner, which is told as this one was.
    pub fn leave(self) {
        let mut guard = self.0;
        guard.left = LeftData::Broken;
    }

    /// Gives the data up.
    pub fn poison(self) {}
}

impl<'a, T: Shareable> Deref for HybridRecovery<'a, T> {
    type Target = HybridHold<'a, T>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T: Shareable> DerefMut for HybridRecovery<'_, T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<T: Shareable> fmt::Debug for HybridRecovery<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HybridRecovery").finish_non_exhaustive()
    }
}
