//! What the several places of one selecting thread agree by which of them counts.

use std::sync::Arc;
use underpass_seam::atomic::{AtomicUsize, Ordering};

/// Nobody has decided.
const OPEN: usize = 0;
/// The thread has given up.
const ABANDONED: usize = 1;
/// The first case; the others follow.
const FIRST: usize = 2;

/// One select's decision, taken once.
pub(crate) struct SelectToken(AtomicUsize);

impl SelectToken {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(OPEN)))
    }

    /// Decides for a case, and so owes the thread its wake; `false` if it is decided.
    pub(crate) fn claim(&self, case: usize) -> bool {
        self.decide(FIRST + case)
    }

    /// Decides for none; `false` if a wake is under way.
    pub(crate) fn abandon(&self) -> bool {
        self.decide(ABANDONED)
    }

    fn decide(&self, decision: usize) -> bool {
        // Relaxed: what goes with the decision is under the lock of the case's channel.
        self.0.compare_exchange(OPEN, decision, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The case that it was decided for.
    pub(crate) fn chosen(&self) -> Option<usize> {
        // Relaxed: asked by the thread after its wake, or of its own decision.
        self.0.load(Ordering::Relaxed).checked_sub(FIRST)
    }
}
