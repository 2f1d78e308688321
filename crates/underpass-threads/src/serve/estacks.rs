//! E-stacks: the stacks on which calls run in the server (LRPC 3.2). How many of them waiting calls
//! may hold, and how many there are.
//!
//! A call takes no stack before it runs. It holds one for longer than its dispatcher runs only if
//! its handler pauses. So stacks are counted at pauses, and a call that doesn't pause pays nothing
//! for this.

use crate::sched::activations;
use crate::sched::runner;
use crate::sched::stack_sizes::{self, LEAST, usual_size};
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use underpass_context::Stacks;

/// The bound if nobody sets one. It suffices for several users, each with all the calls under way
/// that a user has by default. It takes little memory at first, since a stack takes only the pages
/// that were touched.
const USUAL: usize = 16 * 1024;

/// How many E-stacks calls that wait in their handlers may hold.
static BOUND: AtomicUsize = AtomicUsize::new(USUAL);
/// How many they hold.
static ASSOCIATED: AtomicUsize = AtomicUsize::new(0);
/// The most that they ever held at once.
static MOST: AtomicUsize = AtomicUsize::new(0);
/// How often the bound was reached.
static SHORTAGES: AtomicU64 = AtomicU64::new(0);

/// This process will be limited to `bytes` of private memory: E-stacks of the usual size will leave
/// most of it to others.
pub fn e_stacks_within(bytes: u64) {
    stack_sizes::limit(bytes);
}

/// Gives calls that come over lines made known later a stack of at least `bytes`, or of the usual
/// size.
///
/// The stacks of calls all have one size: the largest that anybody has asked for.
///
/// # Errors
/// `OutOfMemory` if there is no address space for one of that size.
pub fn provide_e_stacks(bytes: Option<usize>) -> io::Result<()> {
    /// The size of a process's whole address space.
    const MOST: usize = 1 << 47;
    let size = bytes.map_or_else(usual_size, |bytes| bytes.clamp(LEAST, MOST));
    if bytes.is_some() {
        drop(Stacks::new(size, 0).take()?);
    }
    if (1..size).contains(&stack_sizes::raise(size)) {
        // The smaller ones that are kept are of no use any more.
        runner::trim();
    }
    Ok(())
}

/// How many bytes the stack of a call has at least, if it comes over a line made known from now on.
pub fn e_stack_size() -> usize {
    stack_sizes::stack_size()
}

/// The numbers of E-stacks at one moment.
///
/// # Examples
/// ```
/// let now = underpass_threads::e_stacks();
/// assert!(now.associated <= now.most_associated && now.bound >= 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EStacks {
    /// Once waiting calls hold this many, no more calls are begun until one ends. The calls that
    /// activations run at that moment, one each, may wait besides.
    pub bound: usize,
    /// How many E-stacks are held by calls that wait in their handlers, or went on after they had
    /// waited.
    pub associated: usize,
    /// The most that they ever held at once.
    pub most_associated: usize,
    /// Stacks that take address space: E-stacks, stacks of threads, and stacks of either kind that
    /// are kept for later.
    pub exist: u64,
    /// Stacks that were given back to the system: beyond the number that is kept, unused for long,
    /// or needed when memory was short.
    pub reclaimed: u64,
    /// How often calls had to wait for others to end, because as many stacks were associated as may
    /// be.
    pub shortages: u64,
}

/// Counts this domain's E-stacks. The figures may be from slightly different moments.
pub fn e_stacks() -> EStacks {
    // Relaxed, all: statistics.
    let bound = BOUND.load(Ordering::Relaxed);
    let (made, reclaimed) = runner::made_and_ended();
    EStacks {
        bound,
        associated: ASSOCIATED.load(Ordering::Relaxed),
        most_associated: MOST.load(Ordering::Relaxed),
        exist: made.saturating_sub(reclaimed),
        reclaimed,
        shortages: SHORTAGES.load(Ordering::Relaxed),
    }
}

/// Begins no more calls once `bound` of them, at least one, wait in their handlers: each holds an
/// E-stack. The default is 16,384.
///
/// Calls that come then wait in their bindings' slots, also those that would not wait in their
/// handlers. So handlers that wait for other calls to this domain need a bound that leaves room for
/// those calls. Such calls include the ones that come back from the domains that a handler calls.
///
/// # Examples
/// ```
/// underpass_threads::bound_e_stacks(1000);
/// assert_eq!(underpass_threads::e_stacks().bound, 1000);
/// ```
pub fn bound_e_stacks(bound: usize) {
    // SYNC as in `released`.
    BOUND.store(bound.max(1), Ordering::SeqCst);
    activations::invite();
}

/// Whether calls hold as many E-stacks as they may. If so, new calls wait in their slots.
#[inline]
pub fn short_of_e_stacks() -> bool {
    // Relaxed: an activation that would sleep for this reason asks after its announcement and the
    // heavy barrier. See `released`.
    ASSOCIATED.load(Ordering::Relaxed) >= BOUND.load(Ordering::Relaxed)
}

/// A call has paused, and holds the stack of its dispatcher from now on.
pub(crate) fn associated() {
    // Relaxed: an activation that reads too small a number starts one more dispatcher, as it would
    // have done a moment earlier.
    let now = ASSOCIATED.fetch_add(1, Ordering::Relaxed) + 1;
    if now > MOST.load(Ordering::Relaxed) {
        MOST.fetch_max(now, Ordering::Relaxed);
    }
    if now == BOUND.load(Ordering::Relaxed) {
        SHORTAGES.fetch_add(1, Ordering::Relaxed);
    }
}

/// A call that held a stack has ended.
pub(crate) fn released() {
    // SYNC with the heavy barrier in `sleep`: an activation that sleeps because stacks were short
    // has announced its sleep. Either we see that and wake it, or it sees the stack.
    let before = ASSOCIATED.fetch_sub(1, Ordering::SeqCst);
    if before >= BOUND.load(Ordering::Relaxed) {
        activations::invite();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_size_that_anybody_asks_for_counts() {
        provide_e_stacks(Some(8 << 20)).unwrap();
        provide_e_stacks(Some(1 << 20)).unwrap();
        provide_e_stacks(None).unwrap();
        assert_eq!(stack_sizes::stack_size(), 8 << 20);
        assert_eq!(provide_e_stacks(Some(usize::MAX)).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        assert_eq!(stack_sizes::stack_size(), 8 << 20, "what can't be had changes nothing");
    }
}
