//! The lines of a ring, each found by a few instructions: a call looks up five of them on either
//! side.

use crate::ring_memory::{CacheLine, RingMemory};
use std::sync::Arc;

/// So many lines of `words`, a power of two.
pub(crate) struct RingLines<W> {
    /// As long as `words` lives; not to be given out for longer than `self` is borrowed.
    lines: &'static [CacheLine],
    pub(crate) mask: u32,
    _words: Arc<W>,
}

impl<W: RingMemory> RingLines<W> {
    /// Those that begin with the word at `first_word`.
    ///
    /// # Panics
    /// If `lines` is no power of two, or the memory ends before the lines do.
    pub(crate) fn new(words: Arc<W>, first_word: usize, lines: u32) -> Self {
        assert!(lines.is_power_of_two(), "lines wrap by a mask");
        let found = words.lines(first_word, lines as usize);
        assert_eq!(found.len(), lines as usize);
        // SAFETY: only the lifetime changes. They were borrowed from what `words` counts, which
        // neither moves nor is changed or dropped while it is counted here, and none is given out
        // for longer than `self` is borrowed.
        let found = unsafe { std::mem::transmute::<&[CacheLine], &'static [CacheLine]>(found) };
        Self { lines: found, mask: lines - 1, _words: words }
    }

    /// The line of this number, in the order of a whole lap.
    ///
    /// Neighbours in time lie far apart, in no pattern that a prefetcher knows: otherwise the
    /// taker's prefetcher fetches lines before they are written, and the poster waits for each line
    /// twice.
    #[inline(always)]
    pub(crate) fn line(&self, number: u32) -> &CacheLine {
        let place = number.wrapping_mul(37) & self.mask;
        // SAFETY: the mask is one less than the number of lines, as `new` asserts, and neither
        // changes.
        unsafe { self.lines.get_unchecked(place as usize) }
    }
}

/// Without what lies in them.
impl<W> std::fmt::Debug for RingLines<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RingLines").field("mask", &self.mask).finish_non_exhaustive()
    }
}
