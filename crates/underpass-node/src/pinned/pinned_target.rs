//! What a pinned domain is to have.

use std::sync::atomic::{AtomicU32, Ordering};

/// How many processors a pinned domain has, as the policy counts them. Only the main thread changes
/// it. The surveyor pins by it, later or never, so it guards nothing and is relaxed.
#[derive(Debug, Default)]
pub(crate) struct PinnedTarget(AtomicU32);

impl PinnedTarget {
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, processors: u32) {
        self.0.store(processors, Ordering::Relaxed);
    }

    /// The domain has come to one more processor.
    pub(crate) fn grant(&self) {
        self.set(self.get() + 1);
    }

    /// The domain gives a processor back, if it has one.
    pub(crate) fn ask(&self) {
        self.set(self.get().saturating_sub(1));
    }

    /// The domain keeps so many at the most. Returns whether it had more.
    pub(crate) fn keep(&self, most: u32) -> bool {
        let has_more = self.get() > most;
        if has_more {
            self.set(most);
        }
        has_more
    }
}
