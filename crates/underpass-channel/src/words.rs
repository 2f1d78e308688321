//! Where the words of a ring live: mapped memory in production, a box under loom, in tests and under fuzzing.

use underpass_seam::atomic::AtomicU64;

/// Memory seen as 64-bit words.
pub trait Words {
    /// The word at `index`.
    ///
    /// # Panics
    /// If the memory ends before it.
    fn word(&self, index: usize) -> &AtomicU64;

    /// Asks for the line of the word at `index` early, to write it: a hint.
    #[inline]
    fn want_to_write(&self, _index: usize) {}

    /// Sends the line of the word at `index`, which was written, on towards who reads it on another processor: a hint.
    #[inline]
    fn send_on(&self, _index: usize) {}
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
}

impl<W: Words> Words for std::sync::Arc<W> {
    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        (**self).word(index)
    }

    #[inline]
    fn want_to_write(&self, index: usize) {
        (**self).want_to_write(index);
    }

    #[inline]
    fn send_on(&self, index: usize) {
        (**self).send_on(index);
    }
}
