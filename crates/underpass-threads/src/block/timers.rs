//! The timers of one activation: which of its threads goes on at which time.

use crate::block::control::Control;
use std::collections::BTreeMap;

/// Deadlines of one activation's threads, the earliest first.
#[derive(Default)]
pub(crate) struct Timers {
    waiting: BTreeMap<TimerKey, &'static Control>,
    next: u64,
}

/// A deadline in ns, and a number that makes the key unique.
pub(crate) type TimerKey = (u64, u64);

impl Timers {
    /// Has `control` go on at `deadline_ns`, unless the timer is removed before.
    pub(crate) fn add(&mut self, deadline_ns: u64, control: &'static Control) -> TimerKey {
        self.next += 1;
        let timer = (deadline_ns, self.next);
        self.waiting.insert(timer, control);
        timer
    }

    /// Removes a timer: its wait is over.
    pub(crate) fn remove(&mut self, timer: TimerKey) {
        self.waiting.remove(&timer);
    }

    /// The earliest deadline, in ns.
    pub(crate) fn next(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|(&(deadline, _), _)| deadline)
    }

    /// A thread whose deadline is not after `now`.
    pub(crate) fn due(&mut self, now: u64) -> Option<&'static Control> {
        self.next().filter(|&deadline| deadline <= now)?;
        self.waiting.pop_first().map(|(_, control)| control)
    }
}
