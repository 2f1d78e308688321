//! Whether a processor and its peer share a CPU, so that one of them should leave it.
//!
//! Two threads that wait for each other by polling and giving way are always ready. The kernel
//! seldom moves a thread that is ready: it looks for a CPU only for a thread that is woken. Not
//! even then does it find one where virtual CPUs that are halted count as taken. So the two may
//! share a CPU for long while another CPU idles. A call then costs thirty times as much as between
//! two CPUs.

use std::cell::Cell;

/// If giving way takes at least the first of these, in ns, another thread ran meanwhile. If it
/// takes less than the second, that may have been the peer, which gives way in its turn.
const BRIEF: (u64, u64) = (1_500, 100_000);

/// This many spells in a row are no accident: the peer shares this CPU.
const SHARED: u32 = 8;

/// After it has left a CPU, a processor does not leave another for this long, in ns: the first and
/// the longest pause. Each pause is twice as long as the one before, unless the processor had no
/// wish to leave for some time. Where no CPU is to spare, leaving does not help.
const PAUSE: (u64, u64) = (1_000_000, 1_000_000_000);

/// What one processor has learnt about sharing its CPU with its peer.
#[derive(Debug)]
pub(crate) struct CpuSharing {
    /// Spells in a row in which the message came while this processor gave way.
    met: Cell<u32>,
    /// Whether it may leave its CPU.
    leaves: bool,
    /// When it last left a CPU, in ns of the clock. The next field is how long it does not leave
    /// another.
    left: Cell<u64>,
    pause: Cell<u64>,
}

impl CpuSharing {
    pub(crate) const fn new(leaves: bool) -> Self {
        Self { met: Cell::new(0), leaves, left: Cell::new(0), pause: Cell::new(PAUSE.0) }
    }

    /// Whether the last message came while this processor gave way.
    #[inline]
    pub(crate) fn peer_shares(&self) -> bool {
        self.met.get() > 0
    }

    /// Giving way took `ns`. Returns whether the peer may have run meanwhile.
    pub(crate) fn gave_way(&self, ns: u64) -> bool {
        let met = (BRIEF.0..BRIEF.1).contains(&ns);
        if !met {
            self.met.set(0);
        }
        met
    }

    /// A message ended the spell. `by_giving_way`: the peer may have run while this processor gave
    /// way.
    pub(crate) fn came(&self, by_giving_way: bool) {
        // A processor that may not leave meets its peer any number of times.
        self.met.set(if by_giving_way { SHARED.min(self.met.get() + 1) } else { 0 });
    }

    /// Whether to leave this CPU now. If `true`, the pause begins.
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
        // Leaving did not help.
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
