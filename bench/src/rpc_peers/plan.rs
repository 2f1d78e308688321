//! What is measured, and for how long.

use crate::Pinning;
use std::time::Duration;

/// How long a run takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeersPace {
    /// A look, within two minutes.
    Quick,
    /// Half an hour.
    Usual,
    /// As long as it takes.
    Full,
}

/// The times of a pace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// One load. Its first quarter is not measured.
    pub(super) slice: Duration,
    /// The load of a thousand calls a second.
    pub(super) trickle: Duration,
    /// A pair without calls.
    pub(super) idle: Duration,
    /// How long a caller waits for a dead or stopped server before it counts as waiting for ever.
    pub(super) bound: Duration,
    /// How often a server is killed.
    pub(super) kills: usize,
    /// No further round begins if it would end later.
    pub(super) budget: Duration,
    /// The most rounds.
    pub(super) rounds: usize,
}

impl PeersPace {
    pub(super) fn times(self) -> Times {
        let [milliseconds, seconds] = [Duration::from_millis, Duration::from_secs];
        match self {
            Self::Quick => Times {
                slice: milliseconds(16),
                trickle: milliseconds(60),
                idle: milliseconds(100),
                bound: milliseconds(500),
                kills: 1,
                budget: seconds(110),
                rounds: 2,
            },
            Self::Usual => Times {
                slice: milliseconds(60),
                trickle: milliseconds(300),
                idle: milliseconds(500),
                bound: seconds(12),
                kills: 3,
                budget: seconds(29 * 60),
                rounds: usize::MAX,
            },
            Self::Full => Times {
                slice: milliseconds(240),
                trickle: seconds(2),
                idle: seconds(2),
                bound: seconds(60),
                kills: 10,
                budget: Duration::MAX,
                rounds: 60,
            },
        }
    }
}

/// Calls of so many bytes each way, by so many callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkLoad {
    pub(super) name: &'static str,
    pub(super) bytes: u64,
    pub(super) callers: u64,
    /// Calls a second; otherwise as fast as can be.
    pub(super) rate: Option<u64>,
}

const fn load(name: &'static str, bytes: u64, callers: u64) -> WorkLoad {
    WorkLoad { name, bytes, callers, rate: None }
}

/// What is measured wherever the two sides run.
pub(super) const LOADS: [WorkLoad; 8] = [
    load("null", 0, 1),
    load("200B", 200, 1),
    load("4KiB", 4 << 10, 1),
    load("1MiB", 1 << 20, 1),
    load("null", 0, 32),
    load("200B", 200, 32),
    load("4KiB", 4 << 10, 32),
    load("1MiB", 1 << 20, 32),
];

/// A thousand Nulls a second, where both sides are floating.
pub(super) const TRICKLE: WorkLoad = WorkLoad { name: "null-1000", bytes: 0, callers: 1, rate: Some(1_000) };

impl WorkLoad {
    /// The client's order.
    pub(super) fn line(&self, times: &Times) -> String {
        let (bytes, callers) = (self.bytes, self.callers);
        match self.rate {
            None => format!("load {bytes} {callers} {}", times.slice.as_millis()),
            Some(rate) => format!("load {bytes} {callers} {} {rate}", times.trickle.as_millis()),
        }
    }
}

/// Where the two sides run, by the names of the rows.
pub(super) const PLACEMENTS: [(&str, Pinning); 3] =
    [("apart", Pinning::Apart), ("floating", Pinning::Floating), ("together", Pinning::Together)];

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeersScope {
    /// All loads in all placements, and what else is told of a peer.
    Whole,
    /// Nulls by one caller, with both sides on one CPU.
    NullsTogether,
}

impl PeersScope {
    /// Where the two sides run.
    pub(super) fn placements(self) -> &'static [(&'static str, Pinning)] {
        match self {
            Self::Whole => &PLACEMENTS,
            Self::NullsTogether => &PLACEMENTS[2..],
        }
    }

    /// The loads of a placement.
    pub(super) fn loads(self, pinning: Pinning) -> impl Iterator<Item = WorkLoad> {
        let some = match self {
            Self::Whole => &LOADS[..],
            Self::NullsTogether => &LOADS[..1],
        };
        some.iter().copied().chain((pinning == Pinning::Floating).then_some(TRICKLE))
    }

    /// The most rounds.
    pub(super) fn rounds(self, times: &Times) -> usize {
        match self {
            Self::Whole => times.rounds,
            Self::NullsTogether => times.rounds.min(9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_bytes_callers_time_and_rate() {
        let times = PeersPace::Usual.times();
        assert_eq!(LOADS[5].line(&times), "load 200 32 60");
        assert_eq!(TRICKLE.line(&times), "load 0 1 300 1000");
    }

    #[test]
    fn only_where_both_float_there_is_a_thousand_a_second() {
        let count = |pinning| PeersScope::Whole.loads(pinning).count();
        assert_eq!(PLACEMENTS.map(|(_, pinning)| count(pinning)), [8, 9, 8]);
    }

    #[test]
    fn nulls_on_one_cpu_are_one_load_in_one_placement() {
        let scope = PeersScope::NullsTogether;
        let all: Vec<_> =
            scope.placements().iter().map(|&(place, at)| (place, at, scope.loads(at))).collect();
        assert_eq!((all.len(), all[0].0, all[0].1), (1, "together", Pinning::Together));
        assert!(all.into_iter().all(|(_, _, loads)| loads.eq([LOADS[0]])));
    }
}
