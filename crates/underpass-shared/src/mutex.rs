//! Mutual exclusion between the threads of all members.

use crate::domain::LocalDomain;
use crate::error::{LockError, SyncError};
use crate::layout::{LINE, QUEUED};
use crate::limit::{after, at};
use crate::place::{RegionLayout, RegionPlace};
use crate::raw_lock::{Found, Held, LeftAs, RawLock};
use crate::runtime::panicking;
use crate::shareable::{self, Shareable, mix, shape_of};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Words that the data take, in whole lines.
pub(crate) const fn words_of<T>() -> usize {
    size_of::<T>().div_ceil(8).next_multiple_of(LINE)
}

/// Data in a region, which one thread at a time may use: of any member, user-level or not.
///
/// The data are read and written by copy. At first all bytes are 0.
///
/// If an owner dies or panics, the next one is told, and gets the data to repair.
///
/// # Examples
/// ```
/// use underpass::shared::{Mutex, Region};
///
/// # let dir = std::env::temp_dir().join(format!("underpass-doc-shared-mutex-{}", std::process::id()));
/// # // SAFETY: no other thread has been started yet.
/// # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
/// let region = Region::<Mutex<u64>>::export("hits", |hits| hits.lock().unwrap().set(41))?;
/// let mut hits = region.lock().map_err(|e| e.to_string())?;
/// hits.set(hits.get()? + 1);
/// assert_eq!(hits.get(), Ok(42));
/// # drop(hits);
/// # drop(region);
/// # std::fs::remove_dir(dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Mutex<T> {
    domain: Arc<LocalDomain>,
    at: usize,
    data: PhantomData<fn() -> T>,
}

/// What locking a [`Mutex`] returns.
pub type LockResult<'a, T> = Result<MutexGuard<'a, T>, LockError<Recovery<MutexGuard<'a, T>>>>;

impl<T: Shareable> Mutex<T> {
    fn raw(&self) -> RawLock<'_> {
        RawLock::at(&self.domain, self.at)
    }

    fn guard(&self, held: Held) -> LockResult<'_, T> {
        let broken = held.found == Found::Broken;
        let guard = MutexGuard { mutex: self, held: Some(held), left_as: LeftAs::Whole };
        match broken {
            true => Err(LockError::OwnerDied(Recovery::new(guard))),
            false => Ok(guard),
        }
    }

    /// Takes the lock. Waits as long as another thread holds it.
    ///
    /// # Errors
    /// [`OwnerDied`](LockError::OwnerDied): the lock is taken, repair the data.
    /// [`Failed`](LockError::Failed): the data were given up, or the region has ended.
    #[inline]
    pub fn lock(&self) -> LockResult<'_, T> {
        self.guard(self.raw().lock(None)?)
    }

    /// As [`lock`](Self::lock), but waits at most until `deadline`.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and [`TimedOut`](SyncError::TimedOut).
    pub fn lock_until(&self, deadline: Instant) -> LockResult<'_, T> {
        self.guard(self.raw().lock(at(deadline))?)
    }

    /// As [`lock`](Self::lock), but waits at most for `span`.
    ///
    /// # Errors
    /// As [`lock_until`](Self::lock_until).
    pub fn lock_for(&self, span: Duration) -> LockResult<'_, T> {
        self.guard(self.raw().lock(after(span))?)
    }

    /// As [`lock`](Self::lock), for a task. If the future is dropped, it gives up: so a time-out of
    /// the executor's is a deadline.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    pub async fn lock_async(&self) -> LockResult<'_, T> {
        self.guard(self.raw().lock_async().await?)
    }

    pub(crate) fn lock_until_ns(&self, deadline_ns: u64) -> LockResult<'_, T> {
        self.guard(self.raw().lock(Some(deadline_ns))?)
    }

    /// Takes the lock if nobody holds it.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), and [`WouldBlock`](SyncError::WouldBlock).
    pub fn try_lock(&self) -> LockResult<'_, T> {
        self.guard(self.raw().try_lock()?)
    }

    pub(crate) fn data_at(&self) -> usize {
        self.at + QUEUED
    }
}

impl<T: Shareable> RegionLayout for Mutex<T> {
    const WORDS: usize = QUEUED + words_of::<T>();
    const SHAPE: u64 = mix(mix(shape_of("Mutex"), T::SHAPE), size_of::<T>() as u64);

    fn attach(place: &mut RegionPlace<'_>) -> Self {
        const { assert!(align_of::<T>() <= 64, "data in a region are aligned to 64 bytes at most") };
        let at = place.lock();
        place.take(words_of::<T>());
        Self { domain: place.domain(), at, data: PhantomData }
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").field("at", &self.at).finish_non_exhaustive()
    }
}

/// The right to use the data of a [`Mutex`], until it is dropped.
#[must_use = "the lock is released at once if the guard is dropped"]
pub struct MutexGuard<'a, T: Shareable> {
    mutex: &'a Mutex<T>,
    /// There until the guard is dropped.
    held: Option<Held>,
    left_as: LeftAs,
}

impl<'a, T: Shareable> MutexGuard<'a, T> {
    /// A copy of the data.
    ///
    /// # Errors
    /// [`Invalid`](SyncError::Invalid): the bytes are no value of the type.
    #[inline]
    pub fn get(&self) -> Result<T, SyncError> {
        shareable::read(&self.mutex.domain.words, self.mutex.data_at())
    }

    /// Overwrites the data.
    #[inline]
    pub fn set(&mut self, value: T) {
        shareable::write(&self.mutex.domain.words, self.mutex.data_at(), &value);
    }

    /// Changes the data: reads them, and writes what `change` makes of them.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn update(&mut self, change: impl FnOnce(&mut T)) -> Result<(), SyncError> {
        let mut value = self.get()?;
        change(&mut value);
        self.set(value);
        Ok(())
    }

    /// The address of the data in the region, for data too large to copy. It is valid while the
    /// region is.
    ///
    /// Other members can write there at any moment, whatever the lock says. So a reference to it is
    /// sound only if all of them are trusted, and only atomics and volatile or opaque copies are if
    /// they are not. The bytes may be no value of `T`.
    pub fn as_ptr(&self) -> *mut T {
        self.mutex.domain.words.address(self.mutex.data_at(), size_of::<T>()).cast()
    }

    /// What a condition needs to release the lock and take it again.
    pub(crate) fn parts(&self) -> &'a Mutex<T> {
        self.mutex
    }

    /// Releases the lock for a wait.
    pub(crate) fn release(mut self) {
        self.unlock();
    }

    fn unlock(&mut self) {
        if let Some(held) = self.held.take() {
            self.mutex.raw().unlock(held, self.left_as);
        }
    }
}

impl<T: Shareable> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.left_as == LeftAs::Whole && panicking() {
            self.left_as = LeftAs::Broken;
        }
        self.unlock();
    }
}

impl<T: Shareable + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MutexGuard").field(&self.get()).finish()
    }
}

/// A guard whose data may be half changed.
pub(crate) mod repairable {
    use crate::raw_lock::LeftAs;

    /// Says how its data are left.
    pub trait Repairable {
        /// Notes it, for the release of the lock.
        fn leave_as(&mut self, left_as: LeftAs);
    }
}
use repairable::Repairable;

impl<T: Shareable> Repairable for MutexGuard<'_, T> {
    fn leave_as(&mut self, left_as: LeftAs) {
        self.left_as = left_as;
    }
}

/// The right to use data whose last owner died or panicked in the middle of a change.
///
/// The data can be read and written as with the guard `G`. [`repaired`](Self::repaired) makes an
/// ordinary guard of it. If it is dropped instead, the data are given up: everybody who wants the
/// lock gets [`Poisoned`](SyncError::Poisoned). If this domain dies first, the next owner is told
/// as this one was.
///
/// # Examples
/// ```
/// use underpass::shared::{LockError, Mutex, MutexGuard};
///
/// /// A balance of accounts, of which a transfer changes two.
/// fn total(accounts: &Mutex<[u64; 2]>) -> Result<MutexGuard<'_, [u64; 2]>, String> {
///     match accounts.lock() {
///         Err(LockError::OwnerDied(mut broken)) => {
///             // The last owner died in a transfer: what is missing goes to the first account.
///             let [a, b] = broken.get().map_err(|e| e.to_string())?;
///             broken.set([1_000_u64.saturating_sub(b).max(a), b]);
///             Ok(broken.repaired())
///         }
///         locked => locked.map_err(|e| e.to_string()),
///     }
/// }
/// # let _ = total;
/// ```
#[must_use = "the data are given up if this is dropped"]
pub struct Recovery<G: Repairable> {
    /// There until this is dropped.
    guard: Option<G>,
}

impl<G: Repairable> Recovery<G> {
    pub(crate) fn new(mut guard: G) -> Self {
        guard.leave_as(LeftAs::Poisoned);
        Self { guard: Some(guard) }
    }

    /// The data are whole again, or were so all the time.
    ///
    /// # Panics
    /// Never: the guard is there.
    pub fn repaired(mut self) -> G {
        let mut guard = self.guard.take().expect("it is there until this is dropped");
        guard.leave_as(LeftAs::Whole);
        guard
    }

    /// Leaves the data to the next owner, which is told as this one was.
    pub fn leave(mut self) {
        if let Some(guard) = &mut self.guard {
            guard.leave_as(LeftAs::Broken);
        }
    }

    /// Gives the data up.
    pub fn poison(self) {}
}

impl<G: Repairable> Deref for Recovery<G> {
    type Target = G;

    fn deref(&self) -> &G {
        self.guard.as_ref().expect("it is there until this is dropped")
    }
}

impl<G: Repairable> std::ops::DerefMut for Recovery<G> {
    fn deref_mut(&mut self) -> &mut G {
        self.guard.as_mut().expect("it is there until this is dropped")
    }
}

impl<G: Repairable> fmt::Debug for Recovery<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recovery").finish_non_exhaustive()
    }
}
