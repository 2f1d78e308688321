//! When which thread of an activation is to go on.

use crate::control::Control;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Deadlines of one activation's threads, the earliest first. A deadline that is no longer awaited tells its thread for
/// nothing, which is harmless.
#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    waiting: Vec<Option<&'static Control>>,
    unused: Vec<usize>,
}

impl Timers {
    pub(crate) fn add(&mut self, deadline_ns: u64, control: &'static Control) {
        let place = self.unused.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() - 1
        });
        self.waiting[place] = Some(control);
        self.heap.push(Reverse((deadline_ns, place)));
    }

    /// The earliest deadline, in ns.
    pub(crate) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((deadline, _))| *deadline)
    }

    /// A thread whose deadline is not after `now`.
    pub(crate) fn due(&mut self, now: u64) -> Option<&'static Control> {
        self.next().filter(|&deadline| deadline <= now)?;
        let Reverse((_, place)) = self.heap.pop()?;
        self.unused.push(place);
        self.waiting[place].take()
    }
}
