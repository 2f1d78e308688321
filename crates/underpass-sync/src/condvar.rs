//! A condition variable: waiting for a change of what a mutex guards.

use crate::mutex::MutexGuard;
use crate::queue_wait::{QueueWait, nobody};
use crate::raw_mutex::RawMutex;
use crate::runtime::{Control, WaitLimit, Woken, const_fn, me, wake, yield_now};
use crate::wait_queue::{Entry, ListEnd, Then, WaitQueue};
use std::fmt;
use std::sync::{LockResult, PoisonError};
use std::time::{Duration, Instant};

/// `std`'s condition variable for user-level threads.
///
/// A wait ends by a notification, by its deadline, or because the thread was cancelled. So check
/// the condition again after it. In a loop also check whether the thread is `cancelled()`. The
/// methods with `_while` check the condition themselves, and don't return early when the thread is
/// cancelled.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use underpass::sync::{Condvar, Mutex};
/// use underpass::thread;
///
/// let pair = Arc::new((Mutex::new(false), Condvar::new()));
/// let other = pair.clone();
/// let thread = thread::spawn(move || {
///     *other.0.lock().unwrap() = true;
///     other.1.notify_one();
/// });
/// let started = pair.1.wait_while(pair.0.lock().unwrap(), |started| !*started).unwrap();
/// assert!(*started);
/// # drop(started);
/// thread.join().unwrap();
/// ```
pub struct Condvar {
    waiters: WaitQueue<(), (), 1>,
}

/// The result of a wait with a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the deadline passed without a notification.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    const_fn! {
        /// A condition variable without waiters.
        pub fn new() -> Condvar {
            Condvar { waiters: WaitQueue::new(()) }
        }
    }

    /// Unlocks the mutex, waits for a notification and locks the mutex again.
    ///
    /// # Errors
    /// If the mutex is poisoned by then. The guard is in the error.
    // Inlined down to the switch: the processor mispredicts returns after a switch (decision 0016).
    #[inline(always)]
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.wait_with(guard, WaitLimit::Endless, true).0
    }

    /// Waits as long as `condition` holds. Cancellation does not end it.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_while<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        let mut guard = guard;
        while condition(&mut guard) {
            guard = self.wait_with(guard, WaitLimit::Endless, false).0?;
        }
        Ok(guard)
    }

    /// As [`wait`](Self::wait), but no longer than `span`.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        span: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        self.wait_result(guard, WaitLimit::of(span))
    }

    /// As [`wait`](Self::wait), but not beyond `deadline`.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_until<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        self.wait_result(guard, WaitLimit::until(deadline))
    }

    /// Waits as long as `condition` holds, but no longer than `span`. The wait has timed out if
    /// `condition` still holds. Cancellation does not end it.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use underpass::sync::{Condvar, Mutex};
    /// let (mutex, condvar) = (Mutex::new(0), Condvar::new());
    /// let waited = condvar.wait_timeout_while(mutex.lock().unwrap(), Duration::from_millis(1), |n| *n == 0);
    /// assert!(waited.unwrap().1.timed_out());
    /// ```
    pub fn wait_timeout_while<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        span: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let limit = WaitLimit::of(span);
        let (mut guard, mut late) = (guard, false);
        loop {
            if !condition(&mut guard) {
                return Ok((guard, WaitTimeoutResult(false)));
            }
            if late {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            let (locked, woken) = self.wait_with(guard, limit, false);
            late = woken == Woken::Late;
            guard = locked
                .map_err(|poisoned| PoisonError::new((poisoned.into_inner(), WaitTimeoutResult(late))))?;
        }
    }

    /// Ends the wait of the thread that has waited longest.
    #[inline]
    pub fn notify_one(&self) {
        // A thread that waits for a change that the caller made under the mutex was in the list
        // before the caller had the mutex. So the caller sees it here.
        if self.waiters.looks_empty() {
            return;
        }
        let who = self.waiters.lock().pop(0);
        if let Some(who) = who {
            wake(who);
        }
    }

    /// Ends the waits of all threads.
    #[inline]
    pub fn notify_all(&self) {
        if !self.waiters.looks_empty() {
            self.waiters.lock().wake_all(0);
        }
    }

    fn wait_result<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: WaitLimit,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let (locked, woken) = self.wait_with(guard, limit, true);
        let result = WaitTimeoutResult(woken == Woken::Late);
        match locked {
            Ok(guard) => Ok((guard, result)),
            Err(poisoned) => Err(PoisonError::new((poisoned.into_inner(), result))),
        }
    }

    #[inline(always)]
    fn wait_with<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: WaitLimit,
        cancellable: bool,
    ) -> (LockResult<MutexGuard<'a, T>>, Woken) {
        let me = me();
        let mutex = guard.into_unguarded();
        let wait = Unlocked { condvar: self, lock: mutex.lock(), me, limit, cancellable };
        let (woken, ()) = self.waiters.lock().enlist_then(me, 0, ListEnd::Back, (), wait);
        if woken == Woken::Cancelled {
            // A loop that doesn't check for cancellation must not keep the processor from the
            // threads that would end it.
            yield_now();
        }
        (mutex.lock_again(), woken)
    }
}

/// A thread that releases a lock and waits.
struct Unlocked<'a> {
    condvar: &'a Condvar,
    lock: &'a RawMutex,
    me: &'static Control,
    limit: WaitLimit,
    cancellable: bool,
}

impl Then<(), (), Woken, 1> for Unlocked<'_> {
    #[inline(always)]
    fn then(self, entry: &Entry<'_, (), (), 1>) -> Woken {
        // This thread is in the list already. So a thread that changes the condition from here on
        // finds it.
        self.lock.release();
        let waiting = QueueWait::new(entry, "a condition", self.condvar, &nobody);
        waiting.suspend(self.me, self.limit, self.cancellable)
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}
