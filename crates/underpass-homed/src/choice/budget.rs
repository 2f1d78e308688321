//! Which operations are timed.

/// The largest part of the time that may be spent on watching: 1 in 100.
const PARTS: f64 = 100.0;
/// What a look at the clock takes, in ns.
const LOOK_NS: f64 = 40.0;
/// Looks take this part of the time at most: 1 in 200, which is half of all.
const LOOK_PARTS: f64 = 200.0;
/// The most operations between two looks, for operations that take no time.
const MOST: f64 = 512.0;

/// How much time was spent on watching, and how much has passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchBudget {
    begun_ns: u64,
    spent_ns: f64,
}

impl WatchBudget {
    pub(crate) fn since(now_ns: u64) -> Self {
        Self { begun_ns: now_ns, spent_ns: 0.0 }
    }

    /// Whether something that takes `expected_ns` may be watched.
    pub(crate) fn allows(&self, now_ns: u64, expected_ns: f64) -> bool {
        let passed = now_ns.saturating_sub(self.begun_ns) as f64;
        (self.spent_ns + expected_ns) * PARTS <= passed
    }

    /// Something was watched.
    pub(crate) fn spend(&mut self, ns: f64) {
        self.spent_ns += ns.max(0.0);
    }

    /// The part of the time that was spent.
    pub(crate) fn share(&self, now_ns: u64) -> f64 {
        let passed = now_ns.saturating_sub(self.begun_ns).max(1);
        self.spent_ns / passed as f64
    }

    /// The clock was looked at.
    pub(crate) fn look(&mut self) {
        self.spend(LOOK_NS);
    }

    /// How many operations of `usual_ns` to leave alone after a look at the clock.
    pub(crate) fn later(usual_ns: f64) -> u32 {
        // The cast saturates.
        (LOOK_PARTS * LOOK_NS / usual_ns.max(1.0)).ceil().min(MOST) as u32
    }

    /// The same after an operation that was watched, and took `watched_ns`.
    pub(crate) fn pause(watched_ns: f64, usual_ns: f64) -> u32 {
        let operations = (PARTS * watched_ns / usual_ns.max(1.0)).ceil() as u32;
        operations.clamp(Self::later(usual_ns), 1 << 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watching_takes_a_hundredth_of_the_time_at_most() {
        let mut budget = WatchBudget::since(1_000);
        let (mut now, mut watched) = (1_000, 0);
        // Something of 500 ns each time, and 300 ns of other work between.
        for _ in 0..100_000 {
            now += 300;
            if budget.allows(now, 500.0) {
                now += 500;
                watched += 1;
                budget.spend(500.0);
            }
            assert!(budget.share(now) <= 0.01);
        }
        assert!(watched > 500, "{watched}");
    }

    #[test]
    fn what_takes_longer_than_expected_is_paid_for_later() {
        let mut budget = WatchBudget::since(0);
        assert!(!budget.allows(99, 1.0) && budget.allows(100, 1.0));
        budget.spend(1_000.0);
        assert!(!budget.allows(100_099, 1.0) && budget.allows(100_100, 1.0));
        assert!(!budget.allows(u64::MAX, f64::INFINITY));
    }

    #[test]
    fn looks_take_half_of_that_at_most() {
        for usual in [20.0, 100.0, 1_000.0, 7_999.0, 8_000.0, 1e9] {
            let between = f64::from(WatchBudget::later(usual)) * usual;
            assert!(between * 0.005 >= LOOK_NS, "{usual}");
        }
        assert_eq!((WatchBudget::later(0.0), WatchBudget::later(1e9)), (512, 1));
        assert_eq!(WatchBudget::pause(500.0, 100.0), 500);
        assert_eq!(WatchBudget::pause(1.0, 1_000.0), WatchBudget::later(1_000.0));
        assert_eq!(WatchBudget::pause(f64::INFINITY, 1.0), 1 << 20);
    }
}
