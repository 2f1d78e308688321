//! Where the words of a ring live: mapped memory in production, a box under loom, in tests and under fuzzing.

use crate::layout::LINE_WORDS;
use underpass_seam::atomic::AtomicU64;

/// The words of one line.
pub type Line = [AtomicU64; LINE_WORDS];

/// Memory seen as 64-bit words.
pub trait Words {
    /// The word at `index`.
    ///
    /// # Panics
    /// If the memory ends before it.
    fn word(&self, index: usize) -> &AtomicU64;

    /// The line that begins with the word at `index`.
    ///
    /// # Panics
    /// If the memory ends before the line does.
    fn line(&self, index: usize) -> &Line;

    /// Asks for a line early, to write it: a hint.
    #[inline]
    fn want_to_write(_line: &Line) {}

    /// Asks for a line early, to read it: a hint.
    #[inline]
    fn want_to_read(_line: &Line) {}

    /// Sends a line that was written on towards who reads it on another processor: a hint.
    #[inline]
    fn send_on(_line: &Line) {}
}

/// Words in a box of their own.
#[derive(Debug)]
pub struct Boxed {
    words: Box<[AtomicU64]>,
}

impl Boxed {
    /// `len` zero words.
    pub fn new(len: usize) -> Self {
        Self { words: (0..len).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Words for Boxed {
    fn word(&self, index: usize) -> &AtomicU64 {
        &self.words[index]
    }

    fn line(&self, index: usize) -> &Line {
        self.words[index..].first_chunk().expect("a line that ends within the memory")
    }
}

impl<W: Words> Words for std::sync::Arc<W> {
    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        (**self).word(index)
    }

    #[inline]
    fn line(&self, index: usize) -> &Line {
        (**self).line(index)
    }

    #[inline]
    fn want_to_write(line: &Line) {
        W::want_to_write(line);
    }

    #[inline]
    fn want_to_read(line: &Line) {
        W::want_to_read(line);
    }

    #[inline]
    fn send_on(line: &Line) {
        W::send_on(line);
    }
}
