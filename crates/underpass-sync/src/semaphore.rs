//! A counting semaphore.

use crate::queue_wait::{QueueWait, nobody};
use crate::runtime::{Cancelled, WaitLimit, Woken, const_fn, me, wake};
use crate::wait_queue::{ListEnd, QueueGuard, Verdict, WaitQueue};
use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

/// How many threads are woken in each visit to the queue.
const BATCH: usize = 16;

/// A number of permits, which threads take, give back, and add. It is first come, first served:
/// permits go to the thread that has waited longest. No later one gets in before, even if it wants
/// fewer permits.
///
/// # Examples
/// ```
/// let seats = underpass::sync::Semaphore::new(2);
/// let (one, other) = (seats.acquire().unwrap(), seats.acquire().unwrap());
/// assert!(seats.try_acquire().is_none());
/// drop(one);
/// assert_eq!(seats.available(), 1);
/// # drop(other);
/// ```
pub struct Semaphore {
    /// The number of free permits, and the waiters with the numbers that they want.
    waiters: WaitQueue<usize, usize, 1>,
}

/// Permits of a [`Semaphore`]. They are given back when this is dropped.
#[must_use = "permits are given back as soon as this is dropped"]
#[derive(Debug)]
pub struct Permit<'a> {
    of: &'a Semaphore,
    permits: usize,
}

/// Why no permit was taken in time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AcquireTimeoutError {
    /// The time is over: try again, or wait longer.
    Timeout,
    /// The thread was asked to end while it waited: let it end.
    Cancelled,
}

impl fmt::Display for AcquireTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => {
                f.write_str("no permit of the semaphore became free in time; wait longer, or add permits")
            }
            Self::Cancelled => Cancelled.fmt(f),
        }
    }
}

impl Error for AcquireTimeoutError {}

impl fmt::Debug for AcquireTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Semaphore {
    const_fn! {
        /// A semaphore with `permits` permits.
        pub fn new(permits: usize) -> Semaphore {
            Semaphore { waiters: WaitQueue::new(permits) }
        }
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// If the thread is cancelled.
    #[inline]
    pub fn acquire(&self) -> Result<Permit<'_>, Cancelled> {
        self.acquire_many(1)
    }

    /// Waits for `permits` permits at once.
    ///
    /// # Errors
    /// If the thread is cancelled.
    #[inline]
    pub fn acquire_many(&self, permits: usize) -> Result<Permit<'_>, Cancelled> {
        match self.take(permits, WaitLimit::Endless) {
            Ok(permit) => Ok(permit),
            // Without a deadline the wait can't end late.
            Err(_) => Err(Cancelled),
        }
    }

    /// Takes a permit, if one is free and no thread waits.
    #[inline]
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        self.try_acquire_many(1)
    }

    /// Takes `permits` permits, if they are free and no thread waits.
    #[inline]
    pub fn try_acquire_many(&self, permits: usize) -> Option<Permit<'_>> {
        let mut held = self.waiters.lock();
        Self::free(&mut held, permits).then(|| Permit { of: self, permits })
    }

    /// Waits for a permit, but no longer than `span`.
    ///
    /// # Errors
    /// If none is free in time, or the thread is cancelled.
    pub fn acquire_timeout(&self, span: Duration) -> Result<Permit<'_>, AcquireTimeoutError> {
        self.take(1, WaitLimit::of(span))
    }

    /// Waits for `permits` permits, but not beyond `deadline`.
    ///
    /// # Errors
    /// If they are not free in time, or the thread is cancelled.
    pub fn acquire_many_until(
        &self,
        permits: usize,
        deadline: Instant,
    ) -> Result<Permit<'_>, AcquireTimeoutError> {
        self.take(permits, WaitLimit::until(deadline))
    }

    /// Adds permits, or gives back ones that were [forgotten](Permit::forget).
    ///
    /// # Panics
    /// If there would be more than `usize::MAX`.
    #[inline]
    pub fn release(&self, permits: usize) {
        let mut held = self.waiters.lock();
        match held.checked_add(permits) {
            Some(sum) => *held = sum,
            None => {
                drop(held);
                panic!("a semaphore has at most usize::MAX permits; {permits} more don't fit");
            }
        }
        self.hand_out(held);
    }

    /// How many permits are free now.
    pub fn available(&self) -> usize {
        *self.waiters.lock()
    }

    /// Takes free permits, unless others wait.
    #[inline]
    fn free(held: &mut QueueGuard<'_, usize, usize, 1>, permits: usize) -> bool {
        let free = **held >= permits && held.is_empty(0);
        if free {
            **held -= permits;
        }
        free
    }

    #[inline]
    fn take(&self, permits: usize, limit: WaitLimit) -> Result<Permit<'_>, AcquireTimeoutError> {
        let mut held = self.waiters.lock();
        if !Self::free(&mut held, permits) {
            self.wait(held, permits, limit)?;
        }
        Ok(Permit { of: self, permits })
    }

    fn wait(
        &self,
        held: QueueGuard<'_, usize, usize, 1>,
        permits: usize,
        limit: WaitLimit,
    ) -> Result<(), AcquireTimeoutError> {
        let me = me();
        let (woken, _) = held.enlist(me, 0, ListEnd::Back, permits, |entry| {
            QueueWait::new(entry, "a semaphore", self, &nobody).suspend(me, limit, true)
        });
        let error = match woken {
            Woken::Woken => return Ok(()),
            Woken::Late => AcquireTimeoutError::Timeout,
            Woken::Cancelled => AcquireTimeoutError::Cancelled,
        };
        // Waiters behind us may want fewer permits.
        self.hand_out(self.waiters.lock());
        Err(error)
    }

    /// Gives free permits to the threads that have waited longest.
    #[inline]
    fn hand_out<'a>(&'a self, mut held: QueueGuard<'a, usize, usize, 1>) {
        while !held.is_empty(0) {
            let mut some = [None; BATCH];
            for one in &mut some {
                let permits = *held;
                let first = held.take(0, |_, _, wanted| match *wanted <= permits {
                    true => Verdict::Take(*wanted),
                    false => Verdict::Stop,
                });
                let Some((who, wanted)) = first else { break };
                *held -= wanted;
                *one = Some(who);
            }
            drop(held);
            some.into_iter().flatten().for_each(wake);
            if some[BATCH - 1].is_none() {
                return;
            }
            held = self.waiters.lock();
        }
    }
}

impl Permit<'_> {
    /// Keeps the permits for ever, or until [`Semaphore::release`] adds them again.
    ///
    /// # Examples
    /// ```
    /// let semaphore = underpass::sync::Semaphore::new(1);
    /// semaphore.acquire().unwrap().forget();
    /// assert_eq!(semaphore.available(), 0);
    /// semaphore.release(1);
    /// assert_eq!(semaphore.available(), 1);
    /// ```
    pub fn forget(mut self) {
        self.permits = 0;
    }

    /// How many permits these are.
    pub fn permits(&self) -> usize {
        self.permits
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.permits > 0 {
            self.of.release(self.permits);
        }
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("available", &self.available()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;
    use crate::Mutex;
    use std::sync::Arc;
    use underpass_threads::{spawn, yield_now};

    #[test]
    fn permits_go_to_the_first_waiter() {
        let shared = Arc::new((Semaphore::new(0), Mutex::new(Vec::new())));
        let threads: Vec<_> = (0..10)
            .map(|number| {
                let other = shared.clone();
                let thread = spawn(move || {
                    // The last thread wants fewer permits than those before it, and gets them no
                    // sooner.
                    other.0.acquire_many(if number == 9 { 1 } else { 2 }).unwrap().forget();
                    other.1.lock().unwrap().push(number);
                });
                while shared.0.waiters.waiting(0) <= number {
                    yield_now();
                }
                thread
            })
            .collect();
        for number in 0..9 {
            assert!(shared.0.try_acquire().is_none(), "others wait");
            shared.0.release(1);
            // That is enough for the last thread, which may have run by now.
            let served = shared.1.lock().unwrap().len();
            assert!(served == number || number == 9, "one permit isn't enough for the next waiter");
            shared.0.release(1);
            while shared.1.lock().unwrap().len() <= number {
                yield_now();
            }
        }
        // One more is enough for the last thread.
        shared.0.release(1);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*shared.1.lock().unwrap(), (0..10).collect::<Vec<_>>());
        assert_eq!(shared.0.available(), 0);
    }
}
