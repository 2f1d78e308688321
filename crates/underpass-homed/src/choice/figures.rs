//! R, C and n, and which way is cheaper by them.

use std::fmt;

/// How an operation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChosenWay {
    /// In the caller, on a copy of the object: remote access.
    Access,
    /// At the object's home: remote invocation.
    Invoke,
}

impl fmt::Display for ChosenWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Access => "access",
            Self::Invoke => "invoke",
        })
    }
}

/// What an object's home does, as far as a caller can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HomeState {
    /// A processor of it looks for calls.
    Polling,
    /// It runs, and takes calls late.
    Busy,
    /// It has to be woken.
    Asleep,
    /// Its process is stopped, and takes no call.
    Stopped,
}

impl HomeState {
    /// Those in which it answers.
    pub(crate) const ANSWERING: [Self; 3] = [Self::Polling, Self::Busy, Self::Asleep];

    fn index(self) -> Option<usize> {
        Self::ANSWERING.iter().position(|state| *state == self)
    }
}

impl fmt::Display for HomeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Polling => "polling",
            Self::Busy => "busy",
            Self::Asleep => "asleep",
            Self::Stopped => "stopped",
        })
    }
}

/// So much of the distance to a new measurement a figure moves. One that was disturbed moves it
/// little.
const WEIGHT: f64 = 0.25;
/// A measurement counts as this many times the figure at most: the system may have taken the
/// processor away in the middle.
const MOST: f64 = 4.0;
/// An invocation of a home that runs takes so many times longer than of one that polls, if the home
/// is busy.
const BUSY: f64 = 4.0;
/// The least time of a line, in ns. Clocks may tell less.
const LEAST_NS: f64 = 0.01;

/// What an invocation takes, without the operation itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct InvocationCost {
    pub(crate) ns: f64,
    /// Whether it was measured. Otherwise it is assumed.
    pub(crate) is_measured: bool,
}

impl InvocationCost {
    pub(crate) fn measured(ns: f64) -> Self {
        Self { ns: ns.max(LEAST_NS), is_measured: true }
    }

    pub(crate) fn assumed(ns: f64) -> Self {
        Self { ns: ns.max(LEAST_NS), is_measured: false }
    }

    fn learn(&mut self, ns: f64) {
        match self.is_measured {
            true => self.ns = moved(self.ns, ns),
            false => *self = Self::measured(ns),
        }
    }
}

/// The figures of one operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CostFigures {
    /// The n of the paper: lines that a copy of the object takes.
    pub(crate) lines: u32,
    /// What one of them takes if it is here, in ns.
    pub(crate) local_ns: f64,
    /// What one of them takes if it is in the home's cache, in ns.
    pub(crate) remote_ns: f64,
    /// What an invocation takes, in the order of [`HomeState::ANSWERING`].
    pub(crate) invocations: [InvocationCost; 3],
    /// What the operation takes by itself, on lines that are here.
    pub(crate) body_ns: f64,
}

impl CostFigures {
    /// What holds until something was measured: the orders of magnitude of a present machine.
    pub(crate) fn assumed(lines: u32) -> Self {
        let invocations = [400.0, 400.0 * BUSY, 20_000.0].map(InvocationCost::assumed);
        Self { lines: lines.max(1), local_ns: 2.0, remote_ns: 20.0, invocations, body_ns: 0.0 }
    }

    /// R: how many times longer a line takes that is in the home's cache.
    pub(crate) fn r(&self) -> f64 {
        self.remote_ns / self.local_ns
    }

    /// C: what an invocation takes, in lines that are here. `None` if the home never answers.
    pub(crate) fn c(&self, state: HomeState) -> Option<f64> {
        state.index().map(|index| self.invocations[index].ns / self.local_ns)
    }

    /// (R − 1) n.
    pub(crate) fn penalty(&self) -> f64 {
        (self.r() - 1.0) * f64::from(self.lines)
    }

    /// Which way is cheaper.
    pub(crate) fn cheaper(&self, state: HomeState) -> ChosenWay {
        match self.c(state) {
            Some(c) if self.penalty() >= c => ChosenWay::Invoke,
            _ => ChosenWay::Access,
        }
    }

    /// At how many lines both ways take as long. `None` if access is always cheaper.
    pub(crate) fn break_even(&self, state: HomeState) -> Option<f64> {
        let more = self.r() - 1.0;
        self.c(state).filter(|_| more > 0.0).map(|c| c / more)
    }

    /// What the operation takes in all, in ns.
    pub(crate) fn expected_ns(&self, way: ChosenWay, state: HomeState) -> f64 {
        let lines = f64::from(self.lines);
        let lines_ns = match way {
            ChosenWay::Access => lines * self.remote_ns,
            ChosenWay::Invoke => {
                let invocation = state.index().map_or(f64::INFINITY, |index| self.invocations[index].ns);
                lines * self.local_ns + invocation
            }
        };
        lines_ns + self.body_ns
    }

    /// An access was timed.
    pub(crate) fn accessed(&mut self, copy_ns: f64, body_ns: f64) {
        let line_ns = (copy_ns / f64::from(self.lines)).max(LEAST_NS);
        self.remote_ns = moved(self.remote_ns, line_ns);
        // What was copied twice in a row is here: nothing takes less.
        self.local_ns = self.local_ns.min(self.remote_ns);
        self.body_ns += (body_ns.min(MOST * self.body_ns.max(100.0)) - self.body_ns) * WEIGHT;
    }

    /// An invocation was given up after `ns`: the home is later than that.
    pub(crate) fn unanswered(&mut self, asleep: bool, ns: f64) {
        let [_, busy, sleeping] = &mut self.invocations;
        let late = if asleep { sleeping } else { busy };
        *late = InvocationCost::measured(late.ns.max(ns));
    }

    /// An invocation was timed. Returns what the home did, as far as that shows.
    pub(crate) fn invoked(&mut self, asleep: bool, ns: f64) -> HomeState {
        let by_itself = f64::from(self.lines) * self.local_ns + self.body_ns;
        let invocation = (ns - by_itself).max(LEAST_NS);
        let [polling, busy, sleeping] = &mut self.invocations;
        if asleep {
            sleeping.learn(invocation);
            HomeState::Asleep
        } else if polling.is_measured && invocation > BUSY * polling.ns {
            busy.learn(invocation);
            HomeState::Busy
        } else {
            polling.learn(invocation);
            if !busy.is_measured {
                busy.ns = BUSY * polling.ns;
            }
            HomeState::Polling
        }
    }
}

/// A figure after a further measurement.
fn moved(figure: f64, measured: f64) -> f64 {
    (figure + (measured.min(MOST * figure) - figure) * WEIGHT).max(LEAST_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(lines: u32) -> CostFigures {
        let invocations = [400.0, 4_000.0, 40_000.0].map(InvocationCost::measured);
        CostFigures { lines, local_ns: 2.0, remote_ns: 22.0, invocations, body_ns: 50.0 }
    }

    #[test]
    fn the_papers_formula_decides() {
        // R is 11, and C is 200 for a home that polls: 20 lines are the break-even.
        for (lines, way) in [(1, ChosenWay::Access), (19, ChosenWay::Access), (20, ChosenWay::Invoke)] {
            assert_eq!(figures(lines).cheaper(HomeState::Polling), way, "{lines}");
        }
        assert_eq!(figures(1).break_even(HomeState::Polling), Some(20.0));
        assert_eq!(figures(1).break_even(HomeState::Busy), Some(200.0));
        assert_eq!(figures(2_000).cheaper(HomeState::Asleep), ChosenWay::Invoke);
    }

    #[test]
    fn the_formula_and_the_whole_times_agree() {
        for lines in 1..100 {
            let figures = figures(lines);
            for state in HomeState::ANSWERING {
                let access = figures.expected_ns(ChosenWay::Access, state);
                let invoke = figures.expected_ns(ChosenWay::Invoke, state);
                let cheaper = if access < invoke { ChosenWay::Access } else { ChosenWay::Invoke };
                assert_eq!(figures.cheaper(state), cheaper, "{lines} lines, {state}");
            }
        }
    }

    #[test]
    fn a_stopped_home_is_never_invoked() {
        let figures = figures(u32::MAX);
        assert_eq!(figures.cheaper(HomeState::Stopped), ChosenWay::Access);
        assert_eq!(figures.break_even(HomeState::Stopped), None);
        assert_eq!(figures.expected_ns(ChosenWay::Invoke, HomeState::Stopped), f64::INFINITY);
    }

    #[test]
    fn lines_that_cost_nothing_more_are_always_copied() {
        let here = CostFigures { remote_ns: 2.0, ..figures(10_000) };
        assert_eq!(here.cheaper(HomeState::Polling), ChosenWay::Access);
        assert_eq!(here.break_even(HomeState::Polling), None);
    }

    #[test]
    fn what_is_watched_moves_the_figures() {
        let mut watched = figures(64);
        assert_eq!(watched.cheaper(HomeState::Polling), ChosenWay::Invoke);
        // The home changes nothing any more, so all lines stay here.
        (0..30).for_each(|_| watched.accessed(128.0, 50.0));
        assert_eq!(watched.cheaper(HomeState::Polling), ChosenWay::Access);
        (0..30).for_each(|_| watched.accessed(64.0 * 22.0, 50.0));
        assert_eq!(watched.cheaper(HomeState::Polling), ChosenWay::Invoke);
    }

    #[test]
    fn one_disturbed_measurement_changes_no_figure_by_much() {
        let mut watched = figures(4);
        watched.accessed(10_000_000.0, 10_000_000.0);
        assert!(watched.remote_ns <= 22.0 * 1.75 && watched.body_ns < 200.0, "{watched:?}");
        assert_eq!(watched.invoked(false, 10_000_000.0), HomeState::Busy);
        assert!(watched.invocations[1].ns <= 4_000.0 * 1.75);
        assert_eq!(watched.invocations[0].ns, 400.0, "a late answer is no figure of a home that polls");
    }

    #[test]
    fn a_late_answer_is_that_of_a_busy_home() {
        let mut watched = figures(1);
        assert_eq!(watched.invoked(false, 452.0), HomeState::Polling);
        assert_eq!(watched.invoked(false, 1_700.0), HomeState::Busy);
        assert_eq!(watched.invoked(true, 1_700.0), HomeState::Asleep);
        assert_eq!(watched.invoked(false, 0.0), HomeState::Polling);
    }

    #[test]
    fn an_invocation_that_was_given_up_counts_at_once() {
        let mut watched = figures(64);
        watched.unanswered(false, 1e6);
        watched.unanswered(true, 1.0);
        assert_eq!(watched.invocations.map(|cost| cost.ns), [400.0, 1e6, 40_000.0]);
        assert_eq!(watched.cheaper(HomeState::Busy), ChosenWay::Access);
    }

    #[test]
    fn the_first_measurement_takes_the_place_of_what_was_assumed() {
        let mut assumed = CostFigures::assumed(0);
        assert_eq!((assumed.lines, assumed.invocations[0].is_measured), (1, false));
        assert_eq!(assumed.invoked(false, 10_002.0), HomeState::Polling);
        assert_eq!(assumed.invocations[0], InvocationCost::measured(10_000.0));
        assert_eq!(assumed.invocations[1], InvocationCost::assumed(40_000.0));
    }
}
