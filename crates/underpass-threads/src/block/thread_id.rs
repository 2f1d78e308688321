//! Numbers of threads.

use std::fmt;

/// A number has the place of its block in the low half, and the block's generation in the high
/// half.
pub(crate) const PLACE_BITS: u32 = 32;

/// A thread's number, never used again in this process.
///
/// # Examples
/// ```
/// use underpass::thread;
///
/// let thread = thread::spawn(|| thread::current().id());
/// let id = thread.thread().id();
/// assert_eq!(thread.join().unwrap(), id);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub(crate) u64);

impl ThreadId {
    /// As a number.
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ThreadId {
    /// The place of the thread's control block, and the block's generation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 as u32, self.0 >> 32)
    }
}

pub(crate) fn first_number(index: u32) -> u64 {
    u64::from(index)
}

pub(crate) fn next_number(number: u64) -> u64 {
    // This can't overflow: see `is_used_up`.
    number + (1 << PLACE_BITS)
}

/// Whether a block has no number left. Such a block is never used again, so that no number comes
/// twice. Blocks are used again last in, first out, so one block may stand for 2³² threads within
/// minutes.
pub(crate) fn is_used_up(number: u64) -> bool {
    number >> PLACE_BITS == u64::from(u32::MAX)
}
