//! Where the time of a Null between two domains on one CPU goes (LRPC, Table V).
//!
//! The unavoidable part is a procedure call and two hand-offs of the processor. The rest is the
//! work of both sides: the components of `urpc`'s Table II, stubs included, and what a hand-off
//! costs beyond the raw one. The latter is finding that it is needed, and cold cache lines.

use super::LrpcCalls;
use crate::calls::Calls;
use crate::measure::contest::{Contest, Subject};
use crate::measure::in_process;
use crate::processes::client::ScenarioClient;
use crate::urpc::components;
use crate::{BenchError, Figures};

pub(super) const CASES: [&str; 5] =
    ["table5/procedure-call", "table5/hand-offs", "table5/components", "table5/rest", "table5/total"];

/// The paper's µs: a procedure call; two traps and two context switches; stubs; its kernel's
/// transfer; the total.
const PAPER_US: [f64; 5] = [7.0, 102.0, 21.0, 27.0, 157.0];

pub(super) fn client(client: &ScenarioClient) -> Result<(), BenchError> {
    let (table, probe) = super::import()?;
    client.settle()?;
    let mut hand_offs = client.limit();
    let mut null = Calls::new("null", 1, move || table.null()).counted(&probe);
    let mut call = in_process::call();
    let mut parts = components("components");
    let subjects: &mut [&mut dyn Subject] = &mut [&mut call, &mut hand_offs, &mut parts, &mut null];
    let contest = client.contest(subjects, 0, 1)?;
    let median = |subject: usize| contest.measured[subject].slices().median();
    let rest = rest(&contest);
    let ns = [median(0), median(1), median(2), rest, median(3)];
    for (number, case) in CASES.iter().enumerate().filter(|(_, case)| client.wants(case)) {
        let figures = Figures::one(ns[number], "null", ns[4])
            .with("share_of_null", ns[number] / ns[4])
            .with("paper_share", PAPER_US[number] / PAPER_US[4])
            .with_detail("paper_ns", PAPER_US[number] * 1e3);
        client.report(case, if number == 4 { null.tell(figures) } else { figures })?;
    }
    Ok(())
}

/// What a Null takes beyond the others, for each round. It is negative where a call needs less of
/// the kernel than the raw hand-offs.
fn rest(contest: &Contest) -> f64 {
    let rounds = |subject: usize| contest.measured[subject].rounds.iter();
    let parts =
        rounds(0).zip(rounds(1)).zip(rounds(2)).map(|((call, hand_offs), parts)| call + hand_offs + parts);
    crate::Summary::of(rounds(3).zip(parts).map(|(null, parts)| null - parts)).median()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_parts_are_its_whole() {
        assert_eq!(PAPER_US[..4].iter().sum::<f64>(), PAPER_US[4]);
    }
}
