//! The mark by which the word of a lock tells its holder.

use crate::lock_cell;
use crate::runtime::Control;

/// Low bits that are zero in every mark.
pub(crate) const FREE_BITS: usize = align_of::<Control>() - 1;

/// The mark of the calling thread.
#[inline]
pub(crate) fn mark() -> usize {
    lock_cell::mark()
}

/// The number of the thread with this mark.
pub(crate) fn number(mark: usize) -> Option<u64> {
    lock_cell::marked(mark).map(Control::id).filter(|&id| id != 0)
}
