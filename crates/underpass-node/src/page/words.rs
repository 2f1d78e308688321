//! The memory of a page, wherever it lies: mapped in production, elsewhere under loom.

use underpass_seam::atomic::{AtomicU64, Ordering};

/// A page that this process may write.
pub trait PageWords {
    /// The word of this number.
    fn word(&self, number: usize) -> &AtomicU64;
}

/// A page that this process may read.
pub trait PageView {
    /// The word of this number now. It synchronizes with the release by which it was written.
    fn read(&self, number: usize) -> u64;
}

impl<P: PageWords> PageView for P {
    #[inline]
    fn read(&self, number: usize) -> u64 {
        // SYNC with the release stores and read-modify-writes of this module: what was done before.
        self.word(number).load(Ordering::Acquire)
    }
}

#[cfg(not(underpass_loom))]
impl PageWords for underpass_os::Memory {
    #[inline]
    fn word(&self, number: usize) -> &AtomicU64 {
        &self.words()[number]
    }
}
