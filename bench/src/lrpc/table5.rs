//! Where the time of a Null between two domains on one CPU goes (LRPC, Table V).
//!
//! The unavoidable part is a procedure call, the kernel entries, and the switches between the two
//! processes. The counters say how many entries a Null has, and how its hand-overs are made. The
//! same hand-over is then measured between two processes that do nothing else, and what its own
//! entries cost is subtracted. Both sides' work is measured with both ends in one process, where
//! nothing is handed over.

use super::LrpcCalls;
use crate::calls::Calls;
use crate::measure::call_counters::CountedCalls;
use crate::measure::contest::{Contest, Subject};
use crate::measure::in_process;
use crate::processes::client::ScenarioClient;
use crate::raw::ping::ReplyKind;
use crate::urpc::components::BothSides;
use crate::{BenchError, Figures, Summary};

pub(super) const CASES: [&str; 6] = [
    "table5/procedure-call",
    "table5/traps",
    "table5/switches",
    "table5/both-sides",
    "table5/rest",
    "table5/total",
];

/// The paper's µs: a procedure call; two traps; two context switches; stubs; its kernel's transfer;
/// the total.
const PAPER_US: [f64; 6] = [7.0, 36.0, 66.0, 21.0, 27.0, 157.0];

/// The subjects.
const CALL: usize = 0;
const TRAP: usize = 1;
const BY_YIELD: usize = 2;
const BY_FUTEX: usize = 3;
const BOTH: usize = 4;
const NULL: usize = 5;

/// How a domain hands its processor to the other one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct HandOver {
    name: &'static str,
    subject: usize,
    /// How often a round trip enters the kernel.
    entries: f64,
}

/// Each side yields to the other.
const YIELD: HandOver = HandOver { name: "sched_yield", subject: BY_YIELD, entries: 2.0 };
/// Each side wakes the other, and sleeps.
const FUTEX: HandOver = HandOver { name: "futex", subject: BY_FUTEX, entries: 4.0 };

impl HandOver {
    /// The one of calls that slept so often.
    fn of(sleeps_per_call: f64) -> Self {
        if sleeps_per_call < 0.5 { YIELD } else { FUTEX }
    }
}

pub(super) fn client(client: &ScenarioClient) -> Result<(), BenchError> {
    let (table, probe) = super::import()?;
    client.settle()?;
    let near = client.placement().near;
    let (mut call, mut trap) = (in_process::call(), in_process::system_call());
    let mut by_yield = client.ping("yield-same-cpu", ReplyKind::Yield, near);
    let mut by_futex = client.ping("futex-same-cpu", ReplyKind::Futex, near);
    let mut null = Calls::new("null", 1, move || table.null()).counted(&probe);
    let subjects: &mut [&mut dyn Subject] =
        &mut [&mut call, &mut trap, &mut by_yield, &mut by_futex, &mut BothSides, &mut null];
    let contest = client.contest(subjects, 0, 1)?;
    let ns = Parts::of(&contest, &null.counts());
    for (number, case) in CASES.iter().enumerate().filter(|(_, case)| client.wants(case)) {
        let part = ns.parts[number];
        let figures = Figures::one(part, "null", ns.null())
            .with("share_of_null", part / ns.null())
            .with("paper_share", PAPER_US[number] / PAPER_US[5])
            .with_detail("paper_ns", PAPER_US[number] * 1e3);
        let figures = match *case {
            "table5/traps" => figures.with("entries", ns.entries),
            "table5/switches" => figures.with("hand_over", ns.hand_over.name),
            "table5/rest" => figures.with_detail("exceeded_by_ns", ns.exceeded_by),
            "table5/total" => null.tell(figures),
            _ => figures,
        };
        client.report(case, figures)?;
    }
    Ok(())
}

/// The parts of a Null in ns, in the order of the cases.
#[derive(Clone, Copy, Debug)]
struct Parts {
    parts: [f64; 6],
    /// How often a Null enters the kernel.
    entries: f64,
    hand_over: HandOver,
    /// How much the parts that were measured apart take more than a Null, if they do. The rest is 0
    /// then: some of the work overlaps.
    exceeded_by: f64,
}

impl Parts {
    fn of(contest: &Contest, counts: &CountedCalls) -> Self {
        let (entries, hand_over) = (counts.entries_per_call(), HandOver::of(counts.sleeps_per_call()));
        let rounds = |subject: usize| &contest.measured[subject].rounds;
        let round = |number: usize| {
            let of = |subject: usize| rounds(subject)[number];
            let switches = (of(hand_over.subject) - hand_over.entries * of(TRAP)).max(0.0);
            [of(CALL), entries * of(TRAP), switches, of(BOTH), of(NULL)]
        };
        let all: Vec<[f64; 5]> = (0..rounds(NULL).len()).map(round).collect();
        let median = |part: usize| Summary::of(all.iter().map(|parts| parts[part])).median();
        let rest = all.iter().map(|parts| parts[4] - parts[..4].iter().sum::<f64>());
        let rest = Summary::of(rest).median();
        Self {
            parts: [median(0), median(1), median(2), median(3), rest.max(0.0), median(4)],
            entries,
            hand_over,
            exceeded_by: (-rest).max(0.0),
        }
    }

    fn null(&self) -> f64 {
        self.parts[5]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::contest::Measured;

    #[test]
    fn the_papers_parts_are_its_whole() {
        assert_eq!(PAPER_US[..5].iter().sum::<f64>(), PAPER_US[5]);
    }

    /// Two rounds in which the subjects took these ns, and `null` for a Null.
    fn contest(null: f64) -> Contest {
        let subject =
            |ns: f64| Measured { name: String::new(), rounds: vec![ns, ns], singles: Summary::default() };
        Contest { measured: [1.0, 100.0, 2_000.0, 5_000.0, 60.0, null].map(subject).to_vec() }
    }

    #[test]
    fn what_was_counted_decides_which_hand_over_is_subtracted() {
        assert_eq!((HandOver::of(0.01), HandOver::of(2.0)), (YIELD, FUTEX));
        // Nothing is counted: the calls yield, and enter the kernel 0 times.
        let parts = Parts::of(&contest(2_500.0), &CountedCalls::default());
        assert_eq!(parts.parts, [1.0, 0.0, 1_800.0, 60.0, 639.0, 2_500.0]);
        assert_eq!(parts.exceeded_by, 0.0);
    }

    #[test]
    fn no_rest_is_negative() {
        let parts = Parts::of(&contest(1_000.0), &CountedCalls::default());
        assert_eq!((parts.parts[4], parts.exceeded_by), (0.0, 861.0));
    }
}
