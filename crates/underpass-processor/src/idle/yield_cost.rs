//! Whether giving way (`sched_yield`) pays, where other threads are ready on the same CPU.
//!
//! A thread that gives way goes behind all others that are ready on its CPU. Beside a thread that
//! computes, it has the processor again after a time slice. A kernel thread of low priority (nice)
//! loses far more. The kernel counts as if the thread had used a whole slice of its own. It gives
//! the thread the next slice after a hundred times as long (`sched_yield` of the scheduler by
//! earliest deadlines, Linux 6.6).
//!
//! So a thread that was away for long sleeps instead of giving way, for a while: a wake-up finds it
//! where it was.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How long giving way took lately.
#[derive(Debug)]
pub(crate) struct YieldCost {
    /// How many times in a row it took long.
    long: AtomicU32,
    /// How many times in a row it was short.
    short: AtomicU32,
    /// Giving way is off until this time, in ns of the clock. 0 if it is on.
    again: AtomicU64,
    /// For how long it will be off the next time, in ns.
    pause: AtomicU64,
}

/// If giving way takes at least this, in ns, it took long: others compute here.
const BRIEF: u64 = 1_000_000;
/// This many times in a row turn giving way off.
const LONG: u32 = 3;
/// More than this many short times in a row end a trial, and reset the pause.
const SHORT: u32 = 64;
/// Giving way is off for at least this many times as long as it took.
const SHARE: u64 = 16;
/// The first and the longest pause, in ns. Each pause is twice as long as the one before.
const PAUSE: (u64, u64) = (20_000_000, 10_000_000_000);

pub(crate) static YIELD_COST: YieldCost = YieldCost::new();

// Relaxed throughout: a lost or late update costs time, and nothing else.
impl YieldCost {
    pub(crate) const fn new() -> Self {
        Self {
            long: AtomicU32::new(0),
            short: AtomicU32::new(0),
            again: AtomicU64::new(0),
            pause: AtomicU64::new(PAUSE.0),
        }
    }

    /// Whether giving way pays.
    pub(crate) fn worth_giving_way(&self, now: u64) -> bool {
        let again = self.again.load(Ordering::Relaxed);
        again == 0 || now >= again
    }

    /// A kernel thread has given way, and had its processor back `now`, after `took` ns.
    pub(crate) fn record(&self, took: u64, now: u64) {
        let long = took >= BRIEF;
        if !long && self.again.load(Ordering::Relaxed) == 0 {
            if self.long.load(Ordering::Relaxed) != 0 {
                self.long.store(0, Ordering::Relaxed);
            }
        } else {
            self.record_change(long.then_some(took), now);
        }
    }

    #[cold]
    fn record_change(&self, long: Option<u64>, now: u64) {
        let on_trial = self.again.load(Ordering::Relaxed) != 0;
        let Some(took) = long else {
            if self.short.fetch_add(1, Ordering::Relaxed) >= SHORT {
                self.again.store(0, Ordering::Relaxed);
                self.pause.store(PAUSE.0, Ordering::Relaxed);
            }
            return;
        };
        self.short.store(0, Ordering::Relaxed);
        if !on_trial && self.long.fetch_add(1, Ordering::Relaxed) + 1 < LONG {
            return;
        }
        let pause = self.pause.load(Ordering::Relaxed).max(SHARE * took).min(PAUSE.1);
        self.long.store(0, Ordering::Relaxed);
        self.pause.store((2 * pause).min(PAUSE.1), Ordering::Relaxed);
        self.again.store(now + pause, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_computing_threads_it_pauses_longer_and_longer_until_they_are_gone() {
        let cost = YieldCost::new();
        (0..LONG - 1).for_each(|_| cost.record(BRIEF, 1));
        cost.record(0, 1);
        (0..LONG - 1).for_each(|_| cost.record(BRIEF, 1));
        assert!(cost.worth_giving_way(1), "only three in a row count");
        cost.record(BRIEF, 1);
        assert!(!cost.worth_giving_way(PAUSE.0));
        let mut now = PAUSE.0 + 1;
        assert!(cost.worth_giving_way(now), "it tries again");
        for times in 1..20 {
            cost.record(BRIEF, now);
            let pause = (PAUSE.0 << times).min(PAUSE.1);
            assert!(!cost.worth_giving_way(now + pause - 1), "one long absence ends a trial");
            now += pause;
            assert!(cost.worth_giving_way(now));
        }
        (0..=SHORT).for_each(|_| cost.record(0, now));
        cost.record(BRIEF, now);
        assert!(cost.worth_giving_way(now), "forgotten");
    }

    #[test]
    fn the_pause_grows_with_the_time_that_giving_way_took() {
        let cost = YieldCost::new();
        let took = 300_000_000;
        (0..LONG).for_each(|_| cost.record(took, took));
        assert!(!cost.worth_giving_way((SHARE + 1) * took - 1) && cost.worth_giving_way((SHARE + 1) * took));
    }
}
