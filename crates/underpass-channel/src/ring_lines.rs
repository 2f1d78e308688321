//! The lines of a ring, each found by a few instructions: a call looks up five lines on either
//! side.

use crate::ring_memory::{CacheLine, RingMemory};
use std::sync::Arc;

/// The lines of a ring in `words`. Their number is a power of two.
pub(crate) struct RingLines<W> {
    /// Valid as long as `words` lives. A line is never lent out for longer than `self` is borrowed.
    lines: &'static [CacheLine],
    pub(crate) mask: u32,
    _words: Arc<W>,
}

impl<W: RingMemory> RingLines<W> {
    /// The `lines` lines that begin with the word at `first_word`.
    ///
    /// # Panics
    /// If `lines` is no power of two, or the memory ends before the lines do.
    pub(crate) fn new(words: Arc<W>, first_word: usize, lines: u32) -> Self {
        assert!(lines.is_power_of_two(), "lines wrap by a mask");
        let found = words.lines(first_word, lines as usize);
        assert_eq!(found.len(), lines as usize);
        // SAFETY: only the lifetime changes. The lines were borrowed from the value that `words`
        // counts. That value is neither moved, changed nor dropped while it is counted here. No
        // line is lent out for longer than `self` is borrowed.
        let found = unsafe { std::mem::transmute::<&[CacheLine], &'static [CacheLine]>(found) };
        Self { lines: found, mask: lines - 1, _words: words }
    }

    /// The line with this number, in the order of the full ring.
    ///
    /// Lines with successive numbers lie far apart, in no pattern that a prefetcher recognizes.
    /// Otherwise the receiver's prefetcher fetches lines before they are written, and the poster
    /// waits twice for each line.
    #[inline(always)]
    pub(crate) fn line(&self, number: u32) -> &CacheLine {
        let place = number.wrapping_mul(37) & self.mask;
        // SAFETY: the mask is one less than the number of lines, as `new` asserts, and neither
        // changes.
        unsafe { self.lines.get_unchecked(place as usize) }
    }
}

/// Leaves out the contents of the lines.
impl<W> std::fmt::Debug for RingLines<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RingLines").field("mask", &self.mask).finish_non_exhaustive()
    }
}
