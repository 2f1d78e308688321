//! The memory of a ring: mapped memory in production; a heap allocation under loom, in tests and in
//! fuzz targets.

use crate::layout::LINE_WORDS;
use underpass_seam::atomic::AtomicU64;

/// The words of one cache line.
pub type CacheLine = [AtomicU64; LINE_WORDS];

/// Memory seen as 64-bit words.
pub trait RingMemory {
    /// The word at `index`.
    ///
    /// # Panics
    /// If the memory ends before it.
    fn word(&self, index: usize) -> &AtomicU64;

    /// The `lines` lines of which the first begins with the word at `index`. Returns the same lines
    /// each time.
    ///
    /// # Panics
    /// If the memory ends before the lines do.
    fn lines(&self, index: usize, lines: usize) -> &[CacheLine];

    /// Prefetches a line that will be written: a hint.
    #[inline]
    fn prefetch_for_write(_line: &CacheLine) {}

    /// Prefetches a line that will be read: a hint.
    #[inline]
    fn prefetch_for_read(_line: &CacheLine) {}

    /// Moves a line that was written to the cache that all processors share, towards a reader on
    /// another one: a hint.
    #[inline]
    fn demote(_line: &CacheLine) {}
}

/// Words on the heap.
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
