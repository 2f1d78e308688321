//! A barrier: a point that threads pass together.

use crate::queue_wait::{QueueWait, nobody};
use crate::runtime::{WaitLimit, const_fn, me};
use crate::wait_queue::{ListEnd, WaitQueue};
use std::fmt;

/// `std`'s barrier for user-level threads: each thread that comes waits until `n` threads have
/// come. It serves any number of rounds.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use underpass::sync::Barrier;
/// use underpass::thread;
///
/// let barrier = Arc::new(Barrier::new(3));
/// let others: Vec<_> = (0..2)
///     .map(|_| {
///         let barrier = barrier.clone();
///         thread::spawn(move || barrier.wait().is_leader())
///     })
///     .collect();
/// let leads = barrier.wait().is_leader();
/// let leaders = others.into_iter().map(|thread| thread.join().unwrap()).chain([leads]);
/// assert_eq!(leaders.filter(|leads| *leads).count(), 1);
/// ```
pub struct Barrier {
    needed: usize,
    /// How many threads have come, and the waiting ones.
    waiters: WaitQueue<usize, (), 1>,
}

/// The result of a wait: whether this thread is the leader of its round, which may do something for
/// all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Whether this thread is the leader: it came last.
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl Barrier {
    const_fn! {
        /// A barrier for `n` threads. 0 means the same as 1.
        pub fn new(n: usize) -> Barrier {
            Barrier { needed: n, waiters: WaitQueue::new(0) }
        }
    }

    /// Waits until all threads have come. Cancellation doesn't end the wait, since the others count
    /// on this thread.
    pub fn wait(&self) -> BarrierWaitResult {
        let mut held = self.waiters.lock();
        if *held + 1 >= self.needed {
            *held = 0;
            // Threads that come for the next round from here on have later tickets, and are not
            // woken.
            held.wake_all(0);
            return BarrierWaitResult(true);
        }
        *held += 1;
        let me = me();
        held.enlist(me, 0, ListEnd::Back, (), |entry| {
            QueueWait::new(entry, "a barrier", self, &nobody).suspend(me, WaitLimit::Endless, false)
        });
        BarrierWaitResult(false)
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("needed", &self.needed).finish_non_exhaustive()
    }
}
