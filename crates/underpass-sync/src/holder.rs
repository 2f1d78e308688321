//! Who holds a lock, as its word says it.

use crate::lock_cell;
use crate::runtime::Control;

/// Low bits that are zero in every mark.
pub(crate) const FREE_BITS: usize = align_of::<Control>() - 1;

/// The calling thread, as the word of a lock that it takes will say it.
#[inline]
pub(crate) fn mark() -> usize {
    lock_cell::mark()
}

/// The number of the thread with this mark.
pub(crate) fn number(mark: usize) -> Option<u64> {
    lock_cell::marked(mark).map(Control::id).filter(|&id| id != 0)
}
