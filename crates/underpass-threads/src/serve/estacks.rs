//! E-stacks: the stacks on which calls run in the server (LRPC 3.2). How many of them calls may
//! hold that wait in their handlers, and what there is of them.
//!
//! A call takes no stack before it runs, and holds one for longer than its dispatcher has it only
//! if its handler pauses. So what is counted is counted at pauses, and a call that doesn't pause
//! pays for nothing of this.

use crate::sched::activations;
use crate::sched::runner;
use crate::sched::stack_sizes::{self, LEAST, usual_size};
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use underpass_context::Stacks;

/// The bound if nobody sets one: several users, each with all the calls under way that a user has
/// by default, and little memory yet, since a stack takes the pages that were touched.
const USUAL: usize = 16 * 1024;

/// Calls that wait in their handlers may hold so many.
static BOUND: AtomicUsize = AtomicUsize::new(USUAL);
/// Those that they hold.
static ASSOCIATED: AtomicUsize = AtomicUsize::new(0);
/// The most that they ever held at once.
static MOST: AtomicUsize = AtomicUsize::new(0);
/// How often the bound was reached.
static SHORTAGES: AtomicU64 = AtomicU64::new(0);

/// This process will be limited to so many bytes of private memory: E-stacks of the usual size will
/// leave most of it to others.
pub fn e_stacks_within(bytes: u64) {
    stack_sizes::limit(bytes);
}

/// Sees to it that calls which come over lines that are made known later have stacks of at least
/// `bytes`, or of the usual size.
///
/// The stacks of calls are all of one size: the largest that anybody has asked for.
///
/// # Errors
/// `OutOfMemory` if there is no address space for one of that size.
pub fn provide_e_stacks(bytes: Option<usize>) -> io::Result<()> {
    /// As large as all addresses that a process has.
    const MOST: usize = 1 << 47;
    let size = bytes.map_or_else(usual_size, |bytes| bytes.clamp(LEAST, MOST));
    if bytes.is_some() {
        drop(Stacks::new(size, 0).take()?);
    }
    if (1..size).contains(&stack_sizes::raise(size)) {
        // Those that are kept are of no more use.
        runner::trim();
    }
    Ok(())
}

/// What there is of E-stacks at one moment.
///
/// # Examples
/// ```
/// let now = underpass_threads::e_stacks();
/// assert!(now.associated <= now.most_associated && now.bound >= 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EStacks {
    /// Once calls that wait in their handlers hold so many, no more are begun until one ends. Those
    /// that an activation runs at that moment, one each, may wait besides.
    pub bound: usize,
    /// Calls that wait in their handlers, or went on after they had waited, hold so many.
    pub associated: usize,
    /// The most that they ever held at once.
    pub most_associated: usize,
    /// Stacks that take address space: these, those of threads, and those of either kind that are
    /// kept for later.
    pub exist: u64,
    /// Stacks that were given back to the system: beyond the number that is kept, unused for long,
    /// or needed when memory was short.
    pub reclaimed: u64,
    /// How often calls had to wait for others to end, since as many stacks were associated as may
    /// be.
    pub shortages: u64,
}

/// Counts this domain's E-stacks. The figures may be of moments that lie a little apart.
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
/// E-stack. 16,384 if nothing is said.
///
/// Calls that come then wait in their bindings' slots, also those that would not wait themselves.
/// So handlers that wait for other calls to this domain, their own callees' calls back among them,
/// need a bound that leaves room for these.
///
/// # Examples
/// ```
/// underpass_threads::bound_e_stacks(1000);
/// assert_eq!(underpass_threads::e_stacks().bound, 1000);
/// ```
pub fn bound_e_stacks(bound: usize) {
    // SYNC as `released`.
    BOUND.store(bound.max(1), Ordering::SeqCst);
    activations::invite();
}

/// Whether calls hold as many as they may: then those that come wait where they are.
#[inline]
pub fn short_of_e_stacks() -> bool {
    // Relaxed: who would sleep for this asks after its announcement and the heavy barrier; see
    // `released`.
    ASSOCIATED.load(Ordering::Relaxed) >= BOUND.load(Ordering::Relaxed)
}

/// A call has paused, and holds the stack of its dispatcher from now on.
pub(crate) fn associated() {
    // Relaxed: who reads too small a number has one more dispatcher, who would have had it a moment
    // earlier.
    let now = ASSOCIATED.fetch_add(1, Ordering::Relaxed) + 1;
    if now > MOST.load(Ordering::Relaxed) {
        MOST.fetch_max(now, Ordering::Relaxed);
    }
    if now == BOUND.load(Ordering::Relaxed) {
        SHORTAGES.fetch_add(1, Ordering::Relaxed);
    }
}

/// Such a call has ended.
pub(crate) fn released() {
    // SYNC with the heavy barrier in `sleep`: who sleeps since stacks were short has announced
    // that, and is called, or sees the stack.
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
