//! What simulated domains do.

/// What a simulated domain does. Times are in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Has so many threads that always compute.
    Saturated { threads: u32 },
    /// Sleeps for a while, then computes for a moment.
    Interactive { think: u64, burst: u64 },
    /// Computes for a while, then blocks for a while, and lends its processor meanwhile.
    Blocking { compute: u64, block: u64 },
    /// Has so many threads for a while, then none for a while.
    Bursty { threads: u32, busy: u64, idle: u64 },
    /// Says that it wants everything, and uses nothing.
    Claims,
    /// Always computes, and never gives way.
    Keeps,
    /// Always computes on so many more processors than it has.
    Exceeds { extra: u32 },
}

impl Behaviour {
    /// Whether the domain tells the truth and does what it is asked for.
    pub fn is_honest(self) -> bool {
        !matches!(self, Self::Claims | Self::Keeps | Self::Exceeds { .. })
    }
}

/// What a simulated domain is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Wants nothing until then.
    Asleep { until: u64 },
    /// Has this much to compute, and has waited for a processor for so long meanwhile.
    Busy { left: u64, waited: u64 },
}
