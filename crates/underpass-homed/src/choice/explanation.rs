//! What a user is told about a choice.

use crate::choice::figures::{ChosenWay, CostFigures, HomeState};
use std::fmt;

/// How an `either` operation runs, why, and by which figures. It displays all of them.
///
/// R says how many times longer a cache line takes to read that is in the home's cache. C is what
/// an invocation takes, in lines that are here. Access is cheaper if (R − 1) n < C (Psyche, section
/// 4.1).
///
/// # Examples
/// See [`BoundObject`](crate::BoundObject).
#[derive(Clone, Debug)]
pub struct Explanation {
    pub(crate) operation: &'static str,
    pub(crate) way: ChosenWay,
    pub(crate) by_caller: bool,
    pub(crate) by_attribute: bool,
    pub(crate) home: HomeState,
    pub(crate) figures: CostFigures,
    pub(crate) timed: u64,
    pub(crate) share: f64,
}

impl Explanation {
    /// The operation's name.
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// The way that was chosen.
    pub fn way(&self) -> ChosenWay {
        self.way
    }

    /// Whether the caller or an attribute has fixed it.
    pub fn is_fixed(&self) -> bool {
        self.by_caller || self.by_attribute
    }

    /// What the home does, as far as this domain knows.
    pub fn home(&self) -> HomeState {
        self.home
    }

    /// n: the cache lines of the object, with its number.
    pub fn lines(&self) -> u32 {
        self.figures.lines
    }

    /// What a line takes that is here, in ns.
    pub fn line_ns(&self) -> f64 {
        self.figures.local_ns
    }

    /// R.
    pub fn r(&self) -> f64 {
        self.figures.r()
    }

    /// C for a home in that state. `None` if it never answers.
    pub fn c(&self, home: HomeState) -> Option<f64> {
        self.figures.c(home)
    }

    /// The number of lines at which both ways take as long: C / (R − 1). `None` if access is always
    /// cheaper.
    pub fn break_even(&self, home: HomeState) -> Option<f64> {
        self.figures.break_even(home)
    }

    /// How many operations were timed since the object was bound.
    pub fn timed(&self) -> u64 {
        self.timed
    }

    /// The part of the time since then that they took: 0.01 at most, as far as the figures foresaw.
    pub fn watched_share(&self) -> f64 {
        self.share
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, way, home, figures, .. } = self;
        write!(f, "{operation}: {way}, ")?;
        if self.by_caller {
            f.write_str("as the caller has fixed")?;
        } else if self.by_attribute {
            f.write_str("as its attribute says")?;
        } else {
            let (r, lines, penalty) = (figures.r(), figures.lines, figures.penalty());
            match figures.c(*home) {
                None => f.write_str("as the home takes no call")?,
                Some(c) => {
                    let than = if penalty < c { "less than" } else { "at least" };
                    write!(f, "as (R - 1) n = ({r:.1} - 1) x {lines} = {penalty:.0} is {than} C = {c:.0}")?;
                }
            }
        }
        writeln!(f, "; the home is {home}")?;
        let (local, remote) = (figures.local_ns, figures.remote_ns);
        writeln!(f, "  a line takes {local:.1} ns here, and {remote:.1} ns out of the home's cache")?;
        for (state, cost) in HomeState::ANSWERING.into_iter().zip(&figures.invocations) {
            let c = figures.c(state).unwrap_or(f64::INFINITY);
            let source = if cost.is_measured { "measured" } else { "assumed" };
            let ns = cost.ns;
            writeln!(f, "  an invocation of a home that is {state}: {ns:.0} ns ({source}), C = {c:.0}")?;
        }
        let share = self.share * 100.0;
        write!(f, "  {} operations were timed, in {share:.2} % of the time", self.timed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explanation() -> Explanation {
        Explanation {
            operation: "depth",
            way: ChosenWay::Access,
            by_caller: false,
            by_attribute: false,
            home: HomeState::Polling,
            figures: CostFigures::assumed(5),
            timed: 3,
            share: 0.001,
        }
    }

    #[test]
    fn it_says_what_was_chosen_and_why() {
        let told = explanation().to_string();
        for part in [
            "depth: access, as (R - 1) n = (10.0 - 1) x 5 = 45 is less than C = 200; the home is polling",
            "2.0 ns here, and 20.0 ns",
            "asleep: 20000 ns (assumed), C = 10000",
            "3 operations were timed, in 0.10 % of the time",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let stopped = Explanation { home: HomeState::Stopped, ..explanation() };
        assert!(stopped.to_string().contains("takes no call"));
        let fixed = Explanation { by_attribute: true, ..explanation() };
        assert!(fixed.is_fixed() && fixed.to_string().contains("as its attribute says"));
        let fixed = Explanation { by_caller: true, ..fixed };
        assert!(fixed.to_string().contains("as the caller has fixed"));
    }
}
