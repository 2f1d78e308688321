//! Whether anything was posted since the peer was last called.

use underpass_seam::atomic::{AtomicU32, Ordering};

/// Nothing was posted since.
const NONE: u32 = 0;
/// Something was.
const SOME: u32 = 1;
/// The line is dormant: nobody will see to it.
const UNSEEN: u32 = 2;
/// As it became dormant something was.
const LEFT: u32 = 3;

/// A post that rang no bell: should this side go to sleep over it, it knocks first.
#[derive(Debug, Default)]
pub(crate) struct Unnotified {
    state: AtomicU32,
}

// Relaxed throughout: a hint. A knock too many costs a wake-up; one too few can't come of it, as a
// thread that sleeps has noted its own posts before, and who puts the line away has a heavy barrier
// between `retire` and its look at what was noted.
impl Unnotified {
    /// A post rang no bell. Says whether the poster has to knock by itself, as the line is dormant.
    #[inline]
    pub(crate) fn note(&self) -> bool {
        // A look first: while it is set, the line is only read.
        self.state.load(Ordering::Relaxed) != SOME && self.note_first()
    }

    #[inline]
    fn note_first(&self) -> bool {
        matches!(
            self.state.compare_exchange(NONE, SOME, Ordering::Relaxed, Ordering::Relaxed),
            Err(UNSEEN | LEFT)
        )
    }

    /// Whether there were any since the last time.
    pub(crate) fn take(&self) -> bool {
        self.state.compare_exchange(SOME, NONE, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The line becomes dormant.
    pub(crate) fn retire(&self) {
        if self.state.swap(UNSEEN, Ordering::Relaxed) == SOME {
            self.state.store(LEFT, Ordering::Relaxed);
        }
    }

    /// After the barrier: whether there were any as the line became dormant, once.
    pub(crate) fn take_left(&self) -> bool {
        self.state.compare_exchange(LEFT, UNSEEN, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The line is active again.
    pub(crate) fn revive(&self) {
        if self.state.load(Ordering::Relaxed) >= UNSEEN {
            self.state.store(NONE, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_post_on_a_dormant_line_wakes_a_spare_at_once() {
        let unnotified = Unnotified::default();
        assert!(!unnotified.note());
        assert!(unnotified.take());
        assert!(!unnotified.take());
        unnotified.retire();
        assert!(!unnotified.take_left());
        assert!(unnotified.note() && unnotified.note());
        unnotified.revive();
        assert!(!unnotified.note());
        unnotified.retire();
        assert!(unnotified.take_left(), "what was noted before is seen to once");
        assert!(!unnotified.take_left());
        assert!(unnotified.note());
    }
}
