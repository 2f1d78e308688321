//! The components of a call (URPC, Table II), and their sums, as subjects.
//!
//! They are what lies between the marks of [`super::passes`]. A client's `dispatch` is what a call
//! of a crowd takes beyond its other components: the wake-up of its caller, the switch to it, the
//! return from its call, and its block.

use super::Processors;
use super::passes::{self, Interval, Intervals, MESSAGES};
use crate::BenchError;
use crate::measure::contest::Subject;

/// A component, or the sum of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Component {
    ClientSend,
    ClientPoll,
    ClientReceive,
    ClientDispatch,
    ClientTotal,
    ServerSend,
    ServerPoll,
    ServerReceive,
    ServerDispatch,
    ServerTotal,
}

/// In the order of the paper's table: a side's total comes after its four components.
pub(super) const ALL: [Component; 10] = [
    Component::ClientSend,
    Component::ClientPoll,
    Component::ClientReceive,
    Component::ClientDispatch,
    Component::ClientTotal,
    Component::ServerSend,
    Component::ServerPoll,
    Component::ServerReceive,
    Component::ServerDispatch,
    Component::ServerTotal,
];

impl Component {
    /// Its part of a message. The totals are measured without marks between their components.
    pub(super) fn of(self, intervals: &Intervals) -> f64 {
        let of = |interval| intervals.of(interval);
        // A crowd's callers are served by the same functions as a batch.
        let client = of(Interval::Crowd) - of(Interval::Serve);
        match self {
            Self::ClientSend => of(Interval::Send),
            Self::ClientPoll => of(Interval::ClientPoll),
            Self::ClientReceive => of(Interval::Take),
            Self::ClientDispatch => (client - of(Interval::Send) - of(Interval::Take)).max(0.0),
            Self::ClientTotal => (client + of(Interval::ClientPoll)).max(0.0),
            Self::ServerSend => of(Interval::ServerSend),
            Self::ServerPoll => of(Interval::ServerPoll),
            Self::ServerReceive => of(Interval::ServerReceive),
            Self::ServerDispatch => of(Interval::ServerDispatch),
            Self::ServerTotal => of(Interval::ServerPoll) + of(Interval::Serve),
        }
    }
}

/// What is read off the intervals.
#[derive(Clone, Copy, Debug)]
enum Reading {
    One(Component),
    /// The slower side, if each has that many processors to share its work. It bounds a pipeline of
    /// the two.
    Slower(Processors),
}

/// A component or a sum, as a subject. An operation is a message.
pub(super) struct ComponentTime {
    name: String,
    reading: Reading,
}

impl ComponentTime {
    pub(super) fn of(name: &str, component: Component) -> Self {
        Self { name: name.into(), reading: Reading::One(component) }
    }

    /// The total of the side that is slower with these processors.
    pub(super) fn slower(processors: Processors) -> Self {
        Self { name: "slower-side".into(), reading: Reading::Slower(processors) }
    }
}

impl Subject for ComponentTime {
    fn name(&self) -> &str {
        &self.name
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        let intervals = passes::timed(operations.div_ceil(MESSAGES as u64))?;
        let ns = match self.reading {
            Reading::One(component) => component.of(&intervals),
            Reading::Slower(Processors { clients, servers }) => {
                let client = Component::ClientTotal.of(&intervals) / clients as f64;
                client.max(Component::ServerTotal.of(&intervals) / servers as f64)
            }
        };
        Ok((ns * operations as f64) as u64)
    }

    /// The components are too short to be timed one by one.
    fn single(&mut self, _: u64, _: &mut Vec<f64>) -> Result<(), BenchError> {
        Ok(())
    }
}

/// The work of both sides for a call whose caller polls for its own reply, as a subject: what is
/// left of a null call if cache lines and processors cost nothing. It has no marks.
pub(crate) struct BothSides;

impl Subject for BothSides {
    fn name(&self) -> &str {
        "both-sides"
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        let thread = underpass::thread::spawn(move || passes::lone_calls(operations));
        thread.join().map_err(|_| "the measuring thread panicked")?
    }

    /// As of the components.
    fn single(&mut self, _: u64, _: &mut Vec<f64>) -> Result<(), BenchError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intervals(each: &[(Interval, f64)]) -> Intervals {
        let mut all = Intervals::default();
        each.iter().for_each(|&(interval, ns)| all.set(interval, ns * MESSAGES as f64));
        all
    }

    #[test]
    fn a_sides_components_add_up_to_its_total() {
        let all = intervals(&[
            (Interval::Send, 2.0),
            (Interval::ClientPoll, 1.0),
            (Interval::Take, 3.0),
            (Interval::Serve, 9.0),
            (Interval::Crowd, 19.0),
            (Interval::ServerPoll, 1.0),
        ]);
        let sum: f64 = ALL[..4].iter().map(|component| component.of(&all)).sum();
        assert_eq!((sum, Component::ClientTotal.of(&all)), (11.0, 11.0));
        assert_eq!(Component::ClientDispatch.of(&all), 5.0);
        assert_eq!(Component::ServerTotal.of(&all), 10.0);
    }

    #[test]
    fn a_component_that_is_hardly_measurable_is_not_negative() {
        let all = intervals(&[(Interval::Send, 5.0), (Interval::Crowd, 4.0)]);
        assert_eq!(Component::ClientDispatch.of(&all), 0.0);
    }
}
