//! The children of the case `fork`, which nobody waits for one by one.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many children are started before the spawner waits until all of them have run.
pub const BATCH: u64 = 1000;

/// How many children have run. In a `static`, so that a child carries nothing of its own.
///
/// Relaxed, and counted without a locked instruction: all children of a peer run on its one worker
/// thread.
pub struct Children(AtomicU64);

impl Children {
    /// None has run yet.
    pub const fn new() -> Children {
        Children(AtomicU64::new(0))
    }

    /// The body of a child: it counts itself.
    #[inline]
    pub fn run(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// How many have run.
    #[inline]
    pub fn have_run(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Default for Children {
    fn default() -> Self {
        Self::new()
    }
}
