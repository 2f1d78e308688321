//! The sizes of the stacks of threads and of calls.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use underpass_os::{most_private, promises_memory};

/// The smallest stack. In less than this a panic's message alone overflows.
pub(crate) const LEAST: usize = 16 * 1024;

/// Usable bytes of a thread's stack, unless it asks for another size. Only pages that were touched
/// cost memory.
pub(crate) const STACK: usize = 256 * 1024;
/// Usable bytes of an E-stack if nobody asks for another size, and no limit is in the way.
const SIZE: usize = 2 << 20;
/// Usable bytes of an E-stack if a limit is in the way.
const SMALL: usize = STACK;
/// The calls that a user may have under way by default. The E-stacks of that many calls shall fit
/// into the limit.
const USERS_CALLS: u64 = 4096;

/// Usable bytes of the E-stacks that are made from now on. 0: nobody has asked yet.
static EACH: AtomicUsize = AtomicUsize::new(0);
/// Bytes of private memory to which this process will be limited.
static WITHIN: AtomicU64 = AtomicU64::new(u64::MAX);

/// The least usable bytes of each E-stack.
#[inline]
pub(crate) fn stack_size() -> usize {
    // Relaxed: an export makes its lines known afterwards, under a lock.
    match EACH.load(Ordering::Relaxed) {
        0 => EACH.fetch_max(usual_size(), Ordering::Relaxed).max(EACH.load(Ordering::Relaxed)),
        size => size,
    }
}

/// The size of an E-stack if nobody has asked for one.
pub(crate) fn usual_size() -> usize {
    let within = most_private().unwrap_or(u64::MAX).min(WITHIN.load(Ordering::Relaxed));
    // Where the kernel does not overcommit memory, it counts the whole stack, touched or not.
    if promises_memory() { SMALL } else { size_within(within) }
}

/// This process will be limited to `bytes` of private memory.
pub(crate) fn limit(bytes: u64) {
    WITHIN.fetch_min(bytes, Ordering::Relaxed);
}

/// Each E-stack that is made from now on has at least `size` usable bytes. Returns the size that
/// held before, 0 if nobody had asked for one.
pub(crate) fn raise(size: usize) -> usize {
    // Relaxed: see `stack_size`.
    EACH.fetch_max(size, Ordering::Relaxed)
}

/// The size of an E-stack if this process may have `bytes` of memory.
fn size_within(bytes: u64) -> usize {
    usize::try_from(bytes / USERS_CALLS).unwrap_or(SIZE).clamp(SMALL, SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_limit_leaves_of_the_usual_size() {
        assert_eq!(size_within(u64::MAX), SIZE);
        assert_eq!(size_within(8 << 30), SIZE);
        assert_eq!(size_within(4 << 30), 1 << 20);
        assert_eq!((size_within(1 << 30), size_within(0)), (SMALL, SMALL));
    }
}
