//! Where the words of a ring live: mapped memory in production, a box under loom, in tests and
//! under fuzzing.

use crate::layout::LINE_WORDS;
use underpass_seam::atomic::AtomicU64;

/// The words of one line.
pub type CacheLine = [AtomicU64; LINE_WORDS];

/// Memory seen as 64-bit words.
pub trait RingMemory {
    /// The word at `index`.
    ///
    /// # Panics
    /// If the memory ends before it.
    fn word(&self, index: usize) -> &AtomicU64;

    /// So many lines, of which the first begins with the word at `index`: the same ones each time.
    ///
    /// # Panics
    /// If the memory ends before they do.
    fn lines(&self, index: usize, lines: usize) -> &[CacheLine];

    /// Asks for a line early, to write it: a hint.
    #[inline]
    fn prefetch_for_write(_line: &CacheLine) {}

    /// Asks for a line early, to read it: a hint.
    #[inline]
    fn prefetch_for_read(_line: &CacheLine) {}

    /// Sends a line that was written on towards who reads it on another processor: a hint.
    #[inline]
    fn demote(_line: &CacheLine) {}
}

/// Words in a box of their own.
#[derive(Debug)]
pub struct HeapMemory {
    words: Box<[AtomicU64]>,
}

impl HeapMemory {
    /// `len` zero words.
    pub fn new(len: usize) -> Self {
        Self { words: (0..len).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl RingMemory for HeapMemory {
    fn word(&self, index: usize) -> &AtomicU64 {
        &self.words[index]
    }

    fn lines(&self, index: usize, lines: usize) -> &[CacheLine] {
        self.words[index..][..lines * LINE_WORDS].as_chunks().0
    }
}
