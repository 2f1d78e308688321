//! Whether anything was posted since the peer was last woken.

use underpass_seam::atomic::{AtomicU32, Ordering};

/// Nothing was posted since then.
const NONE: u32 = 0;
/// Something was posted.
const SOME: u32 = 1;
/// The line is dormant: no activation will wake the peer for later posts.
const UNSEEN: u32 = 2;
/// Something had been posted when the line became dormant.
const LEFT: u32 = 3;

/// Remembers posts for which the peer was not woken. Before this side sleeps it wakes one of the
/// peer's spare workers for them.
#[derive(Debug, Default)]
pub(crate) struct Unnotified {
    state: AtomicU32,
}

// Relaxed throughout: a hint. One wake-up too many costs its time. A wake-up can't be missing:
// 1. A thread that sleeps has noted its own posts before.
// 2. A thread that makes the line dormant issues a heavy barrier between `retire` and its load of
//    what was noted.
impl Unnotified {
    /// Notes a post for which the peer was not woken. Returns whether the poster itself has to wake
    /// a spare worker, because the line is dormant.
    #[inline]
    pub(crate) fn note(&self) -> bool {
        // Load first: while it is set, the cache line is only read.
        self.state.load(Ordering::Relaxed) != SOME && self.note_first()
    }

    #[inline]
    fn note_first(&self) -> bool {
        matches!(
            self.state.compare_exchange(NONE, SOME, Ordering::Relaxed, Ordering::Relaxed),
            Err(UNSEEN | LEFT)
        )
    }

    /// Takes the note: whether anything was posted since the last time.
    pub(crate) fn take(&self) -> bool {
        self.state.compare_exchange(SOME, NONE, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The line becomes dormant.
    pub(crate) fn retire(&self) {
        if self.state.swap(UNSEEN, Ordering::Relaxed) == SOME {
            self.state.store(LEFT, Ordering::Relaxed);
        }
    }

    /// After the barrier: whether anything had been posted when the line became dormant. Says so
    /// once.
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
