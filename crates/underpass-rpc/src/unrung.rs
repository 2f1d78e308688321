//! Whether anything was posted since the peer was last called.

use underpass_seam::atomic::{AtomicBool, Ordering};

/// A post that rang no bell: should this side go to sleep over it, it knocks first.
#[derive(Debug, Default)]
pub(crate) struct Unrung {
    any: AtomicBool,
}

// Relaxed throughout: a hint. A knock too many costs a wake-up; one too few can't come of it, as a thread that sleeps has
// noted its own posts before.
impl Unrung {
    /// A post rang no bell.
    #[inline]
    pub(crate) fn note(&self) {
        // A look first: while it is set, the line is only read.
        if !self.any.load(Ordering::Relaxed) {
            self.any.store(true, Ordering::Relaxed);
        }
    }

    /// Whether there were any since the last time.
    pub(crate) fn take(&self) -> bool {
        self.any.swap(false, Ordering::Relaxed)
    }
}
