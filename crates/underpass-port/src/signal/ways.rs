//! How signals were delivered.

use std::sync::atomic::{AtomicU64, Ordering};

/// How a signal was delivered (Raven, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The receiving domain looks by itself.
    Silent,
    /// It waited, and was woken.
    Woken,
    /// It waited, and has no processor but the sender's own. The sender has given way to it.
    Given,
}

/// How many signals of a sender went each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// [`Way::Silent`]: no system call.
    pub silent: u64,
    /// [`Way::Woken`]: one system call.
    pub woken: u64,
    /// [`Way::Given`]: three system calls, one of which gives the processor away.
    pub given: u64,
}

#[derive(Debug, Default)]
pub(crate) struct WayCounts([AtomicU64; 3]);

impl WayCounts {
    pub(crate) fn add(&self, way: Way) {
        // Relaxed, here and below: counts.
        self.0[way as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Ways {
        let [silent, woken, given] = self.0.each_ref().map(|count| count.load(Ordering::Relaxed));
        Ways { silent, woken, given }
    }
}
