//! How a thread waits for something that nobody tells it of: it looks again and again.

use std::time::Duration;
use underpass_os::clock;
use underpass_threads::{sleep, yield_now};

/// So long a thread spins: about the cost of a wake-up, in ns.
const SPIN_NS: u64 = 5_000;

/// The time between two looks of one wait.
#[derive(Debug)]
pub(crate) struct Pace {
    spin_ns: u64,
    deadline_ns: u64,
    has_given_way: bool,
    moment: Duration,
    longest: Duration,
}

/// The deadline has passed.
#[derive(Debug)]
pub(crate) struct DeadlinePassed;

impl Pace {
    /// Spins, gives way once, and then sleeps for `first` between two looks, each time for twice
    /// as long, up to `longest`. The wait ends after `within`.
    pub(crate) fn until(within: Duration, first: Duration, longest: Duration) -> Self {
        let now = clock::now_ns();
        let within = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        let (spin_ns, deadline_ns) = (now.saturating_add(SPIN_NS), now.saturating_add(within));
        Self { spin_ns, deadline_ns, has_given_way: false, moment: first, longest }
    }

    /// Whether it has not given way yet.
    pub(crate) fn spins(&self) -> bool {
        !self.has_given_way
    }

    /// Whether the deadline has passed.
    pub(crate) fn is_over(&self) -> bool {
        clock::now_ns() >= self.deadline_ns
    }

    /// Until the next look.
    pub(crate) fn pause(&mut self) -> Result<(), DeadlinePassed> {
        let now = clock::now_ns();
        if now >= self.deadline_ns {
            return Err(DeadlinePassed);
        }
        if now < self.spin_ns {
            return Ok(());
        }
        if self.has_given_way {
            sleep(self.moment.min(Duration::from_nanos(self.deadline_ns - now)));
            self.moment = (self.moment * 2).min(self.longest);
        } else {
            self.has_given_way = true;
            yield_now();
        }
        Ok(())
    }
}
