//! Many readers or one writer, of any members.

use crate::domain::{LocalDomain, queue_of};
use crate::error::{LockError, SyncError};
use crate::layout::{COUNTS, QUEUED};
use crate::limit::{after, at};
use crate::member_counts::MemberCounts;
use crate::mutex::repairable::Repairable;
use crate::mutex::{Recovery, words_of};
use crate::place::{RegionLayout, RegionPlace};
use crate::raw_lock::{Found, Held, LeftAs, RawLock};
use crate::runtime::{Woken, is_past, nap, panicking};
use crate::shareable::{self, Shareable, mix, shape_of};
use crate::task::QueuedTask;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Data in a region that many threads may read at once, or one may write: of any members.
///
/// A writer that waits comes before readers that come later. A reader that dies hinders nobody. If
/// a writer dies or panics, readers get [`Broken`](SyncError::Broken), until a writer has repaired
/// the data.
///
/// # Examples
/// ```
/// use underpass::shared::{Region, RwLock};
///
/// # let dir = std::env::temp_dir().join(format!("underpass-doc-shared-rwlock-{}", std::process::id()));
/// # // SAFETY: no other thread has been started yet.
/// # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
/// let region = Region::<RwLock<[u32; 4]>>::export("routes", |_| ())?;
/// region.write().unwrap().set([1, 2, 3, 4]);
/// let (one, two) = (region.read()?, region.read()?);
/// assert_eq!((one.get()?, two.get()?), ([1, 2, 3, 4], [1, 2, 3, 4]));
/// # drop((one, two));
/// # drop(region);
/// # std::fs::remove_dir(dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RwLock<T> {
    domain: Arc<LocalDomain>,
    /// The writers' lock. A reader that finds it held waits for it as well.
    lock: usize,
    /// The queue of the writer that waits for readers.
    drained: usize,
    readers: usize,
    data: PhantomData<fn() -> T>,
}

/// What taking an [`RwLock`] to write returns.
pub type WriteResult<'a, T> = Result<RwLockWriteGuard<'a, T>, LockError<Recovery<RwLockWriteGuard<'a, T>>>>;

impl<T: Shareable> RwLock<T> {
    fn raw(&self) -> RawLock<'_> {
        RawLock::at(&self.domain, self.lock)
    }

    fn readers(&self) -> MemberCounts<'_> {
        MemberCounts::at(&self.domain, self.readers)
    }

    fn data_at(&self) -> usize {
        self.readers + COUNTS
    }

    /// Takes the lock to read. Waits as long as a writer has it, or waits for it.
    ///
    /// # Errors
    /// [`Broken`](SyncError::Broken), [`Poisoned`](SyncError::Poisoned) or
    /// [`Ended`](SyncError::Ended).
    pub fn read(&self) -> Result<RwLockReadGuard<'_, T>, SyncError> {
        self.read_within(None)
    }

    /// As [`read`](Self::read), but waits at most until `deadline`.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`TimedOut`](SyncError::TimedOut).
    pub fn read_until(&self, deadline: Instant) -> Result<RwLockReadGuard<'_, T>, SyncError> {
        self.read_within(at(deadline))
    }

    /// As [`read`](Self::read), but waits at most for `span`.
    ///
    /// # Errors
    /// As [`read_until`](Self::read_until).
    pub fn read_for(&self, span: Duration) -> Result<RwLockReadGuard<'_, T>, SyncError> {
        self.read_within(after(span))
    }

    /// Takes the lock to write. Waits as long as others have it.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock).
    pub fn write(&self) -> WriteResult<'_, T> {
        self.write_within(None)
    }

    /// As [`write`](Self::write), but waits at most until `deadline`.
    ///
    /// # Errors
    /// As [`write`](Self::write), and [`TimedOut`](SyncError::TimedOut).
    pub fn write_until(&self, deadline: Instant) -> WriteResult<'_, T> {
        self.write_within(at(deadline))
    }

    /// As [`write`](Self::write), but waits at most for `span`.
    ///
    /// # Errors
    /// As [`write_until`](Self::write_until).
    pub fn write_for(&self, span: Duration) -> WriteResult<'_, T> {
        self.write_within(after(span))
    }

    /// As [`read`](Self::read), for a task. If the future is dropped, it gives up.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_async(&self) -> Result<RwLockReadGuard<'_, T>, SyncError> {
        match self.read_at_once()? {
            Some(guard) => Ok(guard),
            None => self.read_under_lock(self.raw().lock_async().await?),
        }
    }

    /// As [`write`](Self::write), for a task. If the future is dropped, it gives up.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn write_async(&self) -> WriteResult<'_, T> {
        let (guard, broken) = self.hold(self.raw().lock_async().await?);
        let mut wait = QueuedTask::new(&self.domain, self.drained, || ());
        while self.is_read() {
            if self.domain.deaths.are_over() {
                return Err(SyncError::Ended.into());
            }
            match wait.is_enrolled() {
                true => wait.told().await,
                false => wait.enroll().await,
            }
        }
        guard.ready(broken)
    }

    fn read_within(&self, deadline_ns: Option<u64>) -> Result<RwLockReadGuard<'_, T>, SyncError> {
        match self.read_at_once()? {
            Some(guard) => Ok(guard),
            None => self.read_under_lock(self.raw().lock(deadline_ns)?),
        }
    }

    /// G1 and G2. `None`: a writer has the lock, or waits for readers.
    fn read_at_once(&self) -> Result<Option<RwLockReadGuard<'_, T>>, SyncError> {
        if self.domain.deaths.are_over() {
            return Err(SyncError::Ended);
        }
        if !self.readers().add() {
            return Err(SyncError::Full);
        }
        // Subtracts when it is dropped.
        let guard = RwLockReadGuard { lock: self };
        match self.raw().state() {
            (false, false) => Ok(Some(guard)),
            (false, true) => Err(self.why_broken()),
            (true, _) => Ok(None),
        }
    }

    /// G3: behind the writers. Their lock is `held`.
    fn read_under_lock(&self, held: Held) -> Result<RwLockReadGuard<'_, T>, SyncError> {
        let broken = held.found == Found::Broken;
        let counted = !broken && self.readers().add();
        self.raw().unlock(held, if broken { LeftAs::Broken } else { LeftAs::Whole });
        match (broken, counted) {
            (true, _) => Err(SyncError::Broken),
            (_, false) => Err(SyncError::Full),
            _ => Ok(RwLockReadGuard { lock: self }),
        }
    }

    fn why_broken(&self) -> SyncError {
        if self.raw().is_poisoned() { SyncError::Poisoned } else { SyncError::Broken }
    }

    /// G4 to G6.
    fn write_within(&self, deadline_ns: Option<u64>) -> WriteResult<'_, T> {
        let (guard, broken) = self.hold(self.raw().lock(deadline_ns)?);
        self.drain(deadline_ns)?;
        guard.ready(broken)
    }

    /// The guard of a writer that waits for readers, and whether the data are broken. If it is
    /// dropped, the data are left as they were.
    fn hold(&self, held: Held) -> (RwLockWriteGuard<'_, T>, bool) {
        let broken = held.found == Found::Broken;
        let left_as = if broken { LeftAs::Broken } else { LeftAs::Whole };
        (RwLockWriteGuard { lock: self, held: Some(held), left_as }, broken)
    }

    fn is_read(&self) -> bool {
        self.readers().sum(|count| count) != 0
    }

    /// Waits until no live member reads.
    fn drain(&self, deadline_ns: Option<u64>) -> Result<(), SyncError> {
        let domain = &*self.domain;
        while self.is_read() {
            let enrolled = domain.enroll(queue_of(self.drained), 0);
            // Again, now that the last reader finds this thread.
            if !self.is_read() {
                break;
            }
            if domain.deaths.are_over() {
                return Err(SyncError::Ended);
            }
            let woken = match enrolled {
                Some(enrolled) => enrolled.suspend("the readers of a shared lock", deadline_ns, false),
                None => {
                    nap(deadline_ns);
                    Woken::Woken
                }
            };
            if (woken == Woken::Late || is_past(deadline_ns)) && self.is_read() {
                return Err(SyncError::TimedOut);
            }
        }
        Ok(())
    }
}

impl<T: Shareable> RegionLayout for RwLock<T> {
    const WORDS: usize = 2 * QUEUED + COUNTS + words_of::<T>();
    const SHAPE: u64 = mix(mix(shape_of("RwLock"), T::SHAPE), size_of::<T>() as u64);

    fn attach(place: &mut RegionPlace<'_>) -> Self {
        let (lock, drained, readers) = (place.lock(), place.queue(), place.take(COUNTS));
        place.take(words_of::<T>());
        Self { lock, drained, readers, domain: place.domain(), data: PhantomData }
    }
}

impl<T> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").field("at", &self.lock).finish_non_exhaustive()
    }
}

/// The right to read the data of an [`RwLock`], until it is dropped.
#[must_use = "the lock is released at once if the guard is dropped"]
pub struct RwLockReadGuard<'a, T: Shareable> {
    lock: &'a RwLock<T>,
}

impl<T: Shareable> RwLockReadGuard<'_, T> {
    /// A copy of the data.
    ///
    /// # Errors
    /// [`Invalid`](SyncError::Invalid): the bytes are no value of the type.
    pub fn get(&self) -> Result<T, SyncError> {
        shareable::read(&self.lock.domain.words, self.lock.data_at())
    }
}

impl<T: Shareable> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.readers().subtract();
        // After the subtraction: the writer that waits for readers is found, or finds none.
        if self.lock.raw().state().0 {
            self.lock.domain.wake_first(queue_of(self.lock.drained));
        }
    }
}

impl<T: Shareable> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLockReadGuard").finish_non_exhaustive()
    }
}

/// The right to write the data of an [`RwLock`], until it is dropped.
#[must_use = "the lock is released at once if the guard is dropped"]
pub struct RwLockWriteGuard<'a, T: Shareable> {
    lock: &'a RwLock<T>,
    /// There until the guard is dropped.
    held: Option<Held>,
    left_as: LeftAs,
}

impl<'a, T: Shareable> RwLockWriteGuard<'a, T> {
    /// There are no readers any more.
    fn ready(mut self, broken: bool) -> WriteResult<'a, T> {
        self.left_as = LeftAs::Whole;
        match broken {
            true => Err(LockError::OwnerDied(Recovery::new(self))),
            false => Ok(self),
        }
    }

    /// A copy of the data.
    ///
    /// # Errors
    /// [`Invalid`](SyncError::Invalid): the bytes are no value of the type.
    pub fn get(&self) -> Result<T, SyncError> {
        shareable::read(&self.lock.domain.words, self.lock.data_at())
    }

    /// Overwrites the data.
    pub fn set(&mut self, value: T) {
        shareable::write(&self.lock.domain.words, self.lock.data_at(), &value);
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
}

impl<T: Shareable> Repairable for RwLockWriteGuard<'_, T> {
    fn leave_as(&mut self, left_as: LeftAs) {
        self.left_as = left_as;
    }
}

impl<T: Shareable> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        if self.left_as == LeftAs::Whole && panicking() {
            self.left_as = LeftAs::Broken;
        }
        if let Some(held) = self.held.take() {
            self.lock.raw().unlock(held, self.left_as);
        }
    }
}

impl<T: Shareable> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLockWriteGuard").finish_non_exhaustive()
    }
}
