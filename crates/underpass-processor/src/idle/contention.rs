//! Whether giving way is worth while, where others are ready on the same CPU.
//!
//! A thread that gives way goes behind all others that are ready on its CPU. Beside a thread that
//! computes it has the processor again after a time slice. A kernel thread of low priority (nice)
//! loses far more: the kernel counts as if it had used a whole slice of its own, and gives it the
//! next one after a hundred times as long (`sched_yield` of a scheduler by earliest deadlines,
//! Linux 6.6). So a thread that has waited long sleeps instead, for a while: a wake-up finds it
//! where it was.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What giving way has led to lately.
#[derive(Debug)]
pub(crate) struct Contention {
    /// How many times in a row it was long.
    long: AtomicU32,
    /// How many times in a row it did not.
    short: AtomicU32,
    /// Not before this, by that clock.
    again: AtomicU64,
    /// For how long not the next time, in ns.
    pause: AtomicU64,
}

/// Giving way that takes longer than this, in ns, is long: others compute here.
const BRIEF: u64 = 1_000_000;
/// So many times in a row have it stop.
const LONG: u32 = 3;
/// So many times in a row have it forget.
const SHORT: u32 = 64;
/// For how many times as long as it took it stops, at the least.
const SHARE: u64 = 16;
/// For how long it stops, in ns; twice as long each time.
const PAUSE: (u64, u64) = (20_000_000, 10_000_000_000);

pub(crate) static CONTENTION: Contention = Contention::new();

// Relaxed throughout: what is lost or late costs time, and nothing else.
impl Contention {
    const fn new() -> Self {
        Self {
            long: AtomicU32::new(0),
            short: AtomicU32::new(0),
            again: AtomicU64::new(0),
            pause: AtomicU64::new(PAUSE.0),
        }
    }

    /// Whether giving way is worth while.
    pub(crate) fn worth_giving_way(&self, now: u64) -> bool {
        let again = self.again.load(Ordering::Relaxed);
        again == 0 || now >= again
    }

    /// A kernel thread has given way, and has its processor back after `took` ns, `now`.
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
        let contention = Contention::new();
        (0..LONG - 1).for_each(|_| contention.record(BRIEF, 1));
        contention.record(0, 1);
        (0..LONG - 1).for_each(|_| contention.record(BRIEF, 1));
        assert!(contention.worth_giving_way(1), "only three in a row count");
        contention.record(BRIEF, 1);
        assert!(!contention.worth_giving_way(PAUSE.0));
        let mut now = PAUSE.0 + 1;
        assert!(contention.worth_giving_way(now), "it tries again");
        for times in 1..20 {
            contention.record(BRIEF, now);
            let pause = (PAUSE.0 << times).min(PAUSE.1);
            assert!(!contention.worth_giving_way(now + pause - 1), "one long absence ends a trial");
            now += pause;
            assert!(contention.worth_giving_way(now));
        }
        (0..=SHORT).for_each(|_| contention.record(0, now));
        contention.record(BRIEF, now);
        assert!(contention.worth_giving_way(now), "forgotten");
    }

    #[test]
    fn the_pause_grows_with_the_time_that_giving_way_took() {
        let contention = Contention::new();
        let took = 300_000_000;
        (0..LONG).for_each(|_| contention.record(took, took));
        assert!(
            !contention.worth_giving_way((SHARE + 1) * took - 1)
                && contention.worth_giving_way((SHARE + 1) * took)
        );
    }
}
