//! The token of a select. A selecting thread waits in several lists; the token decides once which
//! of these waits counts.

use std::sync::Arc;
use underpass_seam::atomic::{AtomicUsize, Ordering};

/// Nothing is decided.
const OPEN: usize = 0;
/// The thread has given up.
const ABANDONED: usize = 1;
/// The number of the first case. The others follow.
const FIRST: usize = 2;

/// The decision of one select, which is taken once.
pub(crate) struct SelectToken(AtomicUsize);

impl SelectToken {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(OPEN)))
    }

    /// Decides for `case`. `false` if it was decided before. Otherwise the caller owes the thread
    /// its wake-up.
    pub(crate) fn claim(&self, case: usize) -> bool {
        self.decide(FIRST + case)
    }

    /// Decides for no case. `false` if it was decided before: then a wake-up is under way.
    pub(crate) fn abandon(&self) -> bool {
        self.decide(ABANDONED)
    }

    fn decide(&self, decision: usize) -> bool {
        // Relaxed: the lock of the case's channel guards what goes with the decision.
        self.0.compare_exchange(OPEN, decision, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The case that was chosen.
    pub(crate) fn chosen(&self) -> Option<usize> {
        // Relaxed: the thread calls it after its wake-up, or after its own decision.
        self.0.load(Ordering::Relaxed).checked_sub(FIRST)
    }
}
