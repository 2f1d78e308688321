//! Counting semaphores. A permit comes back when its holder dies.

use crate::domain::{LocalDomain, queue_of};
use crate::error::SyncError;
use crate::layout::{COUNTS, MEMBERS, QUEUED, WAITERS};
use crate::limit::{after, at};
use crate::member_counts::MemberCounts;
use crate::place::{RegionLayout, RegionPlace};
use crate::raw_lock::{LeftAs, RawLock};
use crate::runtime::{Woken, is_past, nap};
use crate::shareable::shape_of;
use crate::task::QueuedTask;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use underpass_seam::atomic::Ordering;

/// Permits that threads of all members share. At first there are none.
///
/// A permit comes back when it is dropped, and when the domain that holds it dies.
///
/// # Examples
/// ```
/// use underpass::shared::{Region, Semaphore, SyncError};
///
/// # let dir = std::env::temp_dir().join(format!("underpass-doc-shared-permits-{}", std::process::id()));
/// # // SAFETY: no other thread has been started yet.
/// # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
/// let region = Region::<Semaphore>::export("gpus", |gpus| gpus.add_permits(2))?;
/// let (one, two) = (region.acquire()?, region.acquire()?);
/// assert_eq!(region.try_acquire().map(drop), Err(SyncError::WouldBlock));
/// drop(one);
/// assert!(region.try_acquire().is_ok());
/// # drop(two);
/// # drop(region);
/// # std::fs::remove_dir(dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Semaphore {
    domain: Arc<LocalDomain>,
    /// The lock under which permits are taken, and its queue.
    lock: usize,
    /// How many permits there are in all, and the queue of those that want one.
    at: usize,
    /// How many permits each member holds.
    taken: usize,
}

impl Semaphore {
    /// Takes a permit. Waits until there is one.
    ///
    /// # Errors
    /// [`Ended`](SyncError::Ended) or [`Cancelled`](SyncError::Cancelled).
    pub fn acquire(&self) -> Result<Permit<'_>, SyncError> {
        self.acquire_within(None)
    }

    /// As [`acquire`](Self::acquire), but waits at most until `deadline`.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`TimedOut`](SyncError::TimedOut).
    pub fn acquire_until(&self, deadline: Instant) -> Result<Permit<'_>, SyncError> {
        self.acquire_within(at(deadline))
    }

    /// As [`acquire`](Self::acquire), but waits at most for `span`.
    ///
    /// # Errors
    /// As [`acquire_until`](Self::acquire_until).
    pub fn acquire_for(&self, span: Duration) -> Result<Permit<'_>, SyncError> {
        self.acquire_within(after(span))
    }

    /// As [`acquire`](Self::acquire), for a task. If the future is dropped, it gives up.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_async(&self) -> Result<Permit<'_>, SyncError> {
        let raw = RawLock::at(&self.domain, self.lock);
        let pass_on = || {
            self.domain.wake_first(queue_of(self.at));
        };
        let mut wait = QueuedTask::new(&self.domain, self.at, pass_on);
        loop {
            let held = raw.lock_async().await?;
            let got = self.take_under_lock();
            raw.unlock(held, LeftAs::Whole);
            if got {
                // A permit that woke this task is another one.
                wait.leave(false);
                return Ok(Permit { of: self });
            }
            match wait.is_enrolled() {
                true => wait.told().await,
                false => wait.enroll().await,
            }
        }
    }

    /// Takes a permit if there is one, and no other thread is just taking one.
    ///
    /// # Errors
    /// [`WouldBlock`](SyncError::WouldBlock) if not.
    pub fn try_acquire(&self) -> Result<Permit<'_>, SyncError> {
        match self.try_take(|lock| lock.try_lock())? {
            true => Ok(Permit { of: self }),
            false => Err(SyncError::WouldBlock),
        }
    }

    /// Makes `permits` more permits.
    pub fn add_permits(&self, permits: u32) {
        // SeqCst: before the look into the queue.
        self.domain.words.word(self.at).fetch_add(permits.into(), Ordering::SeqCst);
        // No more threads can be enrolled, whatever a member writes.
        for _ in 0..permits.min((MEMBERS * WAITERS) as u32) {
            if !self.domain.wake_first(queue_of(self.at)) {
                return;
            }
        }
    }

    /// How many permits are free at this moment.
    pub fn available(&self) -> u64 {
        // SeqCst: after the caller has enrolled.
        let all = self.domain.words.word(self.at).load(Ordering::SeqCst);
        all.saturating_sub(self.taken().sum(|count| count))
    }

    fn taken(&self) -> MemberCounts<'_> {
        MemberCounts::at(&self.domain, self.taken)
    }

    /// M1 to M3: takes a permit under the lock that `lock` takes, if one is free.
    fn try_take(
        &self,
        lock: impl FnOnce(RawLock<'_>) -> Result<crate::raw_lock::Held, SyncError>,
    ) -> Result<bool, SyncError> {
        if self.domain.deaths.are_over() {
            return Err(SyncError::Ended);
        }
        let raw = RawLock::at(&self.domain, self.lock);
        // Whether its last owner died does not matter: no owner leaves anything half done.
        let held = lock(raw)?;
        let got = self.take_under_lock();
        raw.unlock(held, LeftAs::Whole);
        Ok(got)
    }

    fn take_under_lock(&self) -> bool {
        self.available() > 0 && self.taken().add()
    }

    fn acquire_within(&self, deadline_ns: Option<u64>) -> Result<Permit<'_>, SyncError> {
        let (domain, queue) = (&*self.domain, queue_of(self.at));
        let take = || self.try_take(|lock| lock.lock(deadline_ns));
        if take()? {
            return Ok(Permit { of: self });
        }
        let ticket = domain.ticket(self.at);
        loop {
            let enrolled = domain.enroll(queue, ticket);
            // Again: from now on, a thread that gives a permit back finds this one.
            let got = take();
            let woken = match (&got, &enrolled) {
                (Ok(false), Some(enrolled)) => enrolled.suspend("a permit of a region", deadline_ns, true),
                (Ok(false), None) => {
                    nap(deadline_ns);
                    Woken::Woken
                }
                _ => Woken::Woken,
            };
            let taken = enrolled.is_some_and(|enrolled| enrolled.leave());
            let over = match (got, woken) {
                (Ok(true), _) => {
                    if taken {
                        // The permit that woke this thread is another one.
                        domain.wake_first(queue);
                    }
                    return Ok(Permit { of: self });
                }
                (Err(why), _) => Some(why),
                (_, Woken::Cancelled) => Some(SyncError::Cancelled),
                (_, Woken::Late) => Some(SyncError::TimedOut),
                (_, Woken::Woken) if is_past(deadline_ns) => Some(SyncError::TimedOut),
                (_, Woken::Woken) => None,
            };
            if let Some(why) = over {
                if taken {
                    domain.wake_first(queue);
                }
                return Err(why);
            }
        }
    }
}

impl RegionLayout for Semaphore {
    const WORDS: usize = 2 * QUEUED + COUNTS;
    const SHAPE: u64 = shape_of("Semaphore");

    fn attach(place: &mut RegionPlace<'_>) -> Self {
        Self { lock: place.lock(), at: place.queue(), taken: place.take(COUNTS), domain: place.domain() }
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("available", &self.available()).finish_non_exhaustive()
    }
}

/// One permit of a [`Semaphore`]. It comes back when this is dropped.
#[derive(Debug)]
#[must_use = "the permit comes back at once if this is dropped"]
pub struct Permit<'a> {
    of: &'a Semaphore,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        // It waits for nobody: neither for the lock, nor for a thread that wants the permit.
        self.of.taken().subtract();
        self.of.domain.wake_first(queue_of(self.of.at));
    }
}
