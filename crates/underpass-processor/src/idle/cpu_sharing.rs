//! Whether a processor and its peer are on one CPU, and one of them is to leave it.
//!
//! Two that wait for each other by polling and giving way are always ready, and the kernel moves
//! who is ready seldom: only who is woken has a CPU looked for, and not even that where virtual
//! CPUs that are halted count as taken. So they may share a CPU for long beside another that idles,
//! at thirty times the price of a call between two.

use std::cell::Cell;

/// Giving way takes longer than this, in ns, if somebody else ran meanwhile; and no longer than the
/// other if that was a peer, which gives way in its turn.
const BRIEF: (u64, u64) = (1_500, 100_000);

/// So many spells in a row are no accident.
const SHARED: u32 = 8;

/// For how long a processor that has left a CPU does not leave another, in ns; twice as long each
/// time, unless it did not want to meanwhile. Where there is no CPU to spare, leaving leads to
/// nothing.
const PAUSE: (u64, u64) = (1_000_000, 1_000_000_000);

/// What one processor knows of it.
#[derive(Debug)]
pub(crate) struct CpuSharing {
    /// Spells in a row in which what was waited for came when this processor gave way.
    met: Cell<u32>,
    /// It may leave.
    leaves: bool,
    /// When it did last, and for how long not again.
    left: Cell<u64>,
    pause: Cell<u64>,
}

impl CpuSharing {
    pub(crate) const fn new(leaves: bool) -> Self {
        Self { met: Cell::new(0), leaves, left: Cell::new(0), pause: Cell::new(PAUSE.0) }
    }

    /// Whether the peer came last when this processor gave way.
    #[inline]
    pub(crate) fn peer_shares(&self) -> bool {
        self.met.get() > 0
    }

    /// It gave way, which took so long, in ns. Says whether its peer may have run meanwhile.
    pub(crate) fn gave_way(&self, ns: u64) -> bool {
        let met = (BRIEF.0..BRIEF.1).contains(&ns);
        if !met {
            self.met.set(0);
        }
        met
    }

    /// A spell ended well, with giving way or without.
    pub(crate) fn came(&self, by_giving_way: bool) {
        // Who may not leave meets its peer for as long as it likes.
        self.met.set(if by_giving_way { SHARED.min(self.met.get() + 1) } else { 0 });
    }

    /// Whether to leave this CPU now; if so, it is not asked again soon.
    pub(crate) fn should_leave(&self, now: u64) -> bool {
        let last = now - self.left.get();
        if !self.leaves || self.met.get() < SHARED || last < self.pause.get() {
            return false;
        }
        self.met.set(0);
        self.left.set(now);
        let again = last < 4 * self.pause.get();
        self.pause.set(if again { PAUSE.1.min(2 * self.pause.get()) } else { PAUSE.0 });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meet(sharing: &CpuSharing, times: u32) {
        (0..times).for_each(|_| sharing.came(true));
    }

    #[test]
    fn eight_meetings_in_a_row_make_it_leave_once() {
        let sharing = CpuSharing::new(true);
        let mut now = 100 * PAUSE.1;
        meet(&sharing, SHARED - 1);
        sharing.came(false);
        meet(&sharing, SHARED - 1);
        assert!(!sharing.should_leave(now), "in a row");
        meet(&sharing, 1);
        assert!(sharing.should_leave(now) && !sharing.should_leave(now));
        // It was no use.
        let mut pauses = Vec::new();
        for _ in 0..12 {
            meet(&sharing, SHARED);
            let left = now;
            while !sharing.should_leave(now) {
                now += PAUSE.0 / 2;
            }
            pauses.push(now - left);
        }
        assert!(pauses.is_sorted() && pauses[0] <= 2 * PAUSE.0 && pauses[11] >= PAUSE.1, "{pauses:?}");
        now += 10 * PAUSE.1;
        meet(&sharing, SHARED);
        assert!(sharing.should_leave(now));
        now += PAUSE.0;
        meet(&sharing, SHARED);
        assert!(sharing.should_leave(now), "forgotten");
    }

    #[test]
    fn a_very_short_or_very_long_absence_is_no_meeting() {
        let sharing = CpuSharing::new(true);
        for ns in [BRIEF.0 - 1, BRIEF.1] {
            meet(&sharing, SHARED);
            assert!(!sharing.gave_way(ns) && !sharing.peer_shares());
        }
        assert!(sharing.gave_way(BRIEF.0));
    }

    #[test]
    fn one_that_may_not_leave_stays() {
        let sharing = CpuSharing::new(false);
        meet(&sharing, 2 * SHARED);
        assert!(!sharing.should_leave(100 * PAUSE.1));
        assert_eq!(sharing.met.get(), SHARED, "it counts no further");
    }
}
