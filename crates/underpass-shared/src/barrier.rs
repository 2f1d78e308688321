//! Threads of all members that wait for each other.

use crate::domain::{LocalDomain, queue_of};
use crate::error::SyncError;
use crate::layout::{COUNTS, QUEUED};
use crate::limit::{after, at};
use crate::member_counts::MemberCounts;
use crate::place::{RegionLayout, RegionPlace};
use crate::raw_lock::{Held, LeftAs, RawLock};
use crate::runtime::{Woken, is_past, nap};
use crate::shareable::{mix, shape_of};
use crate::task::QueuedTask;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use underpass_seam::atomic::Ordering;

/// `N` threads of all members wait here for each other, again and again.
///
/// A thread whose domain dies while it waits has not arrived: another thread takes its place.
///
/// # Examples
/// ```
/// use underpass::shared::{Barrier, Region};
/// use underpass::thread;
///
/// # let dir = std::env::temp_dir().join(format!("underpass-doc-shared-barrier-{}", std::process::id()));
/// # // SAFETY: no other thread has been started yet.
/// # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
/// let region = Region::<Barrier<2>>::export("start", |_| ())?;
/// let other = region.clone();
/// let other = thread::spawn(move || other.wait());
/// let leads = region.wait()?;
/// assert_ne!(other.join().unwrap()?, leads, "one of the two leads");
/// # drop(region);
/// # std::fs::remove_dir(dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Barrier<const N: u16> {
    domain: Arc<LocalDomain>,
    /// The lock under which threads arrive.
    lock: usize,
    /// The number of the round, and the queue.
    at: usize,
    /// How many of each member have arrived, and in which round.
    arrived: usize,
}

impl<const N: u16> Barrier<N> {
    /// Waits until `N` threads have arrived. Returns `true` in one of them.
    ///
    /// # Errors
    /// [`Ended`](SyncError::Ended) or [`Cancelled`](SyncError::Cancelled): this thread has not
    /// arrived.
    pub fn wait(&self) -> Result<bool, SyncError> {
        self.wait_within(None)
    }

    /// As [`wait`](Self::wait), but waits at most until `deadline`. A thread that gives up just
    /// when the last one arrives may have been counted.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), and [`TimedOut`](SyncError::TimedOut).
    pub fn wait_until(&self, deadline: Instant) -> Result<bool, SyncError> {
        self.wait_within(at(deadline))
    }

    /// As [`wait_until`](Self::wait_until), for `span` from now.
    ///
    /// # Errors
    /// As [`wait_until`](Self::wait_until).
    pub fn wait_for(&self, span: Duration) -> Result<bool, SyncError> {
        self.wait_within(after(span))
    }

    /// As [`wait`](Self::wait), for a task. If the future is dropped, it has not arrived.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub async fn wait_async(&self) -> Result<bool, SyncError> {
        let held = RawLock::at(&self.domain, self.lock).lock_async().await?;
        let (round, leads) = self.arrive(held)?;
        if leads {
            self.domain.wake_all(queue_of(self.at));
            return Ok(true);
        }
        let mut arrival = Arrival { at: self, round, is_counted: true };
        let mut wait = QueuedTask::new(&self.domain, self.at, || ());
        while self.round() == round {
            if self.domain.deaths.are_over() {
                return Err(SyncError::Ended);
            }
            match wait.is_enrolled() {
                true => wait.told().await,
                false => wait.enroll().await,
            }
        }
        arrival.is_counted = false;
        Ok(false)
    }

    fn round(&self) -> u64 {
        // SeqCst: after the caller has enrolled.
        self.domain.words.word(self.at).load(Ordering::SeqCst)
    }

    fn arrived(&self) -> MemberCounts<'_> {
        MemberCounts::at(&self.domain, self.arrived)
    }

    /// Arrives, under the lock, which it releases. Returns the round, and whether this thread was
    /// the last one of it.
    fn arrive(&self, held: Held) -> Result<(u64, bool), SyncError> {
        let round = self.round();
        // A count of another round is void.
        let came =
            self.arrived().change(|count| in_round(count, round).checked_add(1).map(|n| count_of(round, n)));
        let all = came && self.arrived().sum(|count| in_round(count, round).into()) >= N.into();
        if all {
            // This one store begins the next round, and makes all counts void.
            self.domain.words.word(self.at).store(round.wrapping_add(1), Ordering::SeqCst);
        }
        RawLock::at(&self.domain, self.lock).unlock(held, LeftAs::Whole);
        match came {
            true => Ok((round, all)),
            false => Err(SyncError::Full),
        }
    }

    /// Takes an arrival back. `false`: it was none any more.
    fn withdraw(&self, round: u64) -> bool {
        let less = |count| in_round(count, round).checked_sub(1).map(|arrived| count_of(round, arrived));
        self.arrived().change(less)
    }

    fn wait_within(&self, deadline_ns: Option<u64>) -> Result<bool, SyncError> {
        let (domain, queue) = (&*self.domain, queue_of(self.at));
        if domain.deaths.are_over() {
            return Err(SyncError::Ended);
        }
        let (round, leads) = self.arrive(RawLock::at(domain, self.lock).lock(deadline_ns)?)?;
        if leads {
            domain.wake_all(queue);
            return Ok(true);
        }
        let ticket = domain.ticket(self.at);
        let why = loop {
            let enrolled = domain.enroll(queue, ticket);
            if self.round() != round {
                return Ok(false);
            }
            if domain.deaths.are_over() {
                break SyncError::Ended;
            }
            if is_past(deadline_ns) {
                break SyncError::TimedOut;
            }
            let woken = match enrolled {
                Some(enrolled) => enrolled.suspend("others at a shared barrier", deadline_ns, true),
                None => {
                    nap(deadline_ns);
                    Woken::Woken
                }
            };
            match woken {
                Woken::Woken => {}
                Woken::Late => break SyncError::TimedOut,
                Woken::Cancelled => break SyncError::Cancelled,
            }
        };
        let left = self.withdraw(round);
        if self.round() != round || !left {
            return Ok(false);
        }
        Err(why)
    }
}

/// A task that has arrived, and may be dropped.
struct Arrival<'a, const N: u16> {
    at: &'a Barrier<N>,
    round: u64,
    is_counted: bool,
}

impl<const N: u16> Drop for Arrival<'_, N> {
    fn drop(&mut self) {
        if self.is_counted {
            self.at.withdraw(self.round);
        }
    }
}

/// How many have arrived in `round`, by a count.
fn in_round(count: u32, round: u64) -> u16 {
    if (count >> 16) as u16 == round as u16 { count as u16 } else { 0 }
}

fn count_of(round: u64, arrived: u16) -> u32 {
    u32::from(round as u16) << 16 | u32::from(arrived)
}

impl<const N: u16> RegionLayout for Barrier<N> {
    const WORDS: usize = 2 * QUEUED + COUNTS;
    const SHAPE: u64 = mix(shape_of("Barrier"), N as u64);

    fn attach(place: &mut RegionPlace<'_>) -> Self {
        Self { lock: place.lock(), at: place.queue(), arrived: place.take(COUNTS), domain: place.domain() }
    }
}

impl<const N: u16> fmt::Debug for Barrier<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("round", &self.round()).finish_non_exhaustive()
    }
}
