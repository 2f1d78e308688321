//! Conditions.

use crate::domain::{LocalDomain, queue_of};
use crate::error::{LockError, SyncError};
use crate::limit::{after, at};
use crate::mutex::{LockResult, MutexGuard};
use crate::place::{RegionLayout, RegionPlace};
use crate::runtime::{Woken, is_past, nap};
use crate::shareable::{Shareable, shape_of};
use crate::task::QueuedTask;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use underpass_seam::atomic::Ordering;

/// How a wait for a [`Condvar`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notified {
    /// It was notified, or a member died: look at the condition.
    Look,
    /// The deadline passed.
    Late,
}

/// Threads of any member wait here until another one says that something has changed.
///
/// A wait may end without a notification: in particular, every wait ends when a member dies. So
/// wait in a loop that looks at the condition, or use [`wait_while`](Self::wait_while).
///
/// # Examples
/// ```
/// use underpass::shared::{Condvar, Mutex, Region};
/// use underpass::thread;
///
/// # let dir = std::env::temp_dir().join(format!("underpass-doc-shared-condvar-{}", std::process::id()));
/// # // SAFETY: no other thread has been started yet.
/// # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
/// let region = Region::<(Mutex<u32>, Condvar)>::export("bell", |_| ())?;
/// let theirs = region.clone();
/// let ringer = thread::spawn(move || {
///     theirs.0.lock().unwrap().set(7);
///     theirs.1.notify_one();
/// });
/// let rung = region.1.wait_while(region.0.lock().unwrap(), |rung| *rung == 0);
/// assert_eq!(rung.unwrap().get(), Ok(7));
/// ringer.join().unwrap();
/// # drop(region);
/// # std::fs::remove_dir(dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Condvar {
    domain: Arc<LocalDomain>,
    at: usize,
}

/// What a wait with a deadline returns: the lock, taken again, and how the wait ended.
pub type CondvarResult<'a, T> =
    Result<(MutexGuard<'a, T>, Notified), LockError<crate::Recovery<MutexGuard<'a, T>>>>;

impl Condvar {
    /// Releases the lock, waits until this is notified, and takes the lock again.
    ///
    /// # Errors
    /// As [`Mutex::lock`](crate::Mutex::lock), and [`Cancelled`](SyncError::Cancelled). After
    /// [`Failed`](LockError::Failed) the lock is not taken.
    pub fn wait<'a, T: Shareable>(&self, guard: MutexGuard<'a, T>) -> LockResult<'a, T> {
        self.wait_within(guard, None).map(|(guard, _)| guard)
    }

    /// As [`wait`](Self::wait), but waits at most until `deadline`, for the lock as well.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), and [`TimedOut`](SyncError::TimedOut) if another thread holds the
    /// lock at the deadline: then the lock is not taken.
    pub fn wait_until<'a, T: Shareable>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> CondvarResult<'a, T> {
        self.wait_within(guard, at(deadline))
    }

    /// As [`wait_until`](Self::wait_until), for `span` from now.
    ///
    /// # Errors
    /// As [`wait_until`](Self::wait_until).
    pub fn wait_for<'a, T: Shareable>(
        &self,
        guard: MutexGuard<'a, T>,
        span: Duration,
    ) -> CondvarResult<'a, T> {
        self.wait_within(guard, after(span))
    }

    /// Waits as long as `condition` holds for the data.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), and [`Invalid`](SyncError::Invalid).
    pub fn wait_while<'a, T: Shareable>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&T) -> bool,
    ) -> LockResult<'a, T> {
        while condition(&guard.get()?) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// C1 to C5.
    fn wait_within<'a, T: Shareable>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline_ns: Option<u64>,
    ) -> CondvarResult<'a, T> {
        let mutex = guard.parts();
        let (domain, queue) = (&*self.domain, queue_of(self.at));
        let rounds = self.rounds();
        let enrolled = domain.enroll(queue, domain.ticket(self.at));
        guard.release();
        let (woken, taken) = match enrolled {
            Some(enrolled) => {
                let woken = if domain.deaths.are_over() {
                    Woken::Woken
                } else {
                    enrolled.suspend("a shared condition", deadline_ns, true)
                };
                (woken, enrolled.leave())
            }
            None => {
                let mut woken = Woken::Woken;
                while woken == Woken::Woken && self.rounds() == rounds && !domain.deaths.are_over() {
                    nap(deadline_ns);
                    woken = if is_past(deadline_ns) { Woken::Late } else { Woken::Woken };
                }
                (woken, false)
            }
        };
        let ended = match woken {
            // C4: a thread that was taken out was notified, whatever else has come.
            _ if taken => Notified::Look,
            Woken::Woken => Notified::Look,
            Woken::Late => Notified::Late,
            Woken::Cancelled => return Err(SyncError::Cancelled.into()),
        };
        let locked = match deadline_ns {
            None => mutex.lock(),
            Some(deadline) => mutex.lock_until_ns(deadline),
        };
        // C5: a notified thread that can't look passes the notification on.
        if taken && locked.as_ref().err().is_some_and(|e| e.failure().is_some()) {
            self.notify_one();
        }
        locked.map(|guard| (guard, ended))
    }

    /// As [`wait`](Self::wait), for a task. If the future is dropped, the lock is not taken again.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub async fn wait_async<'a, T: Shareable>(&self, guard: MutexGuard<'a, T>) -> LockResult<'a, T> {
        let mutex = guard.parts();
        let pass_on = || self.notify_one();
        let mut wait = QueuedTask::new(&self.domain, self.at, pass_on);
        wait.enroll().await;
        guard.release();
        wait.told().await;
        let locked = mutex.lock_async().await;
        wait.leave(locked.as_ref().err().is_none_or(|e| e.failure().is_none()));
        locked
    }

    /// How often this was notified.
    fn rounds(&self) -> u64 {
        self.domain.words.word(self.at).load(Ordering::SeqCst)
    }

    /// Wakes the thread that has waited longest.
    pub fn notify_one(&self) {
        self.domain.words.word(self.at).fetch_add(1, Ordering::SeqCst);
        self.domain.wake_first(queue_of(self.at));
    }

    /// Wakes all threads that wait.
    pub fn notify_all(&self) {
        self.domain.words.word(self.at).fetch_add(1, Ordering::SeqCst);
        self.domain.wake_all(queue_of(self.at));
    }
}

impl RegionLayout for Condvar {
    const WORDS: usize = crate::layout::QUEUED;
    const SHAPE: u64 = shape_of("Condvar");

    fn attach(place: &mut RegionPlace<'_>) -> Self {
        Self { at: place.queue(), domain: place.domain() }
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").field("at", &self.at).finish_non_exhaustive()
    }
}
