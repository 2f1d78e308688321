//! `table2`: where the time of a call goes, and its instructions (URPC, section 4.2).
//!
//! The components are measured with both ends in one process. `table2/null` puts their sum beside a
//! null call between two processes, with the wait for cache lines as a row of its own.

use super::components::{ALL, BothSides, ComponentTime};
use super::count;
use super::null::null;
use super::passes::MESSAGES;
use crate::calls::serve;
use crate::catalogue::Scenario;
use crate::measure::contest::{Contest, calibrate};
use crate::measure::in_process;
use crate::processes::client::ScenarioClient;
use crate::processes::role::idle;
use crate::raw::ping::ReplyKind;
use crate::{BenchError, Effort, Figures, Pinning, Summary, calls};
use std::time::Duration;

const CASES: [&str; 10] = [
    "table2/client/send",
    "table2/client/poll",
    "table2/client/receive",
    "table2/client/dispatch",
    "table2/client/total",
    "table2/server/send",
    "table2/server/poll",
    "table2/server/receive",
    "table2/server/dispatch",
    "table2/server/total",
];

const CALL: [&str; 3] = ["table2/both-sides", "table2/lines", "table2/null"];

pub(super) const COMPONENTS: Scenario =
    Scenario { name: "table2", cases: &CASES, pinning: Pinning::Alone, client, server: idle };

pub(super) const NULL_CALL: Scenario =
    Scenario { name: "table2/null", cases: &CALL, pinning: Pinning::Apart, client: call, server: serve };

/// The paper's times in µs, in the order of the cases. A procedure call took 7 µs there.
const PAPER_US: [f64; 10] = [18.0, 6.0, 10.0, 20.0, 54.0, 13.0, 6.0, 9.0, 25.0, 53.0];
const PAPER_CALL_US: f64 = 7.0;
/// The paper's null call with T = C = S = 1.
const PAPER_NULL_US: f64 = 93.0;

/// Each timed component runs through all components.
const SLICE: Duration = Duration::from_micros(300);

/// That takes about as long.
const MESSAGES_A_SLICE: u64 = 16 * MESSAGES as u64;

fn client(client: &ScenarioClient) -> Result<(), BenchError> {
    underpass::processors::set(1);
    let effort = Effort { slice: SLICE.min(client.effort().slice), ..client.effort() };
    // Counting takes seconds, so a quick run of all cases does without.
    let counted = (!client.few()).then(|| count::instructions(&|| client.progress(0.0)));
    if let Some(Err(why)) = &counted {
        client.note(&format!("no instructions of the components: {why}"))?;
    }
    for (number, case) in CASES.iter().enumerate().filter(|(_, case)| client.wants(case)) {
        let component = ALL[number];
        let (mut unit, mut part) = (in_process::call(), ComponentTime::of(case, component));
        let mut progress = |share| client.progress((number as f64 + share) / CASES.len() as f64);
        // A component may be too short to tell how many messages fill a slice.
        let operations = [calibrate(&mut unit, effort.slice)?, MESSAGES_A_SLICE];
        let contest = Contest::of(&mut [&mut unit, &mut part], &operations, effort, &mut progress)?;
        let paper = PAPER_US[number];
        let figures = Figures::of(&contest, 1, 0);
        let figures = figures.with("paper_ns", paper * 1e3).with("paper_ratio", paper / PAPER_CALL_US);
        let figures = match &counted {
            Some(Ok(counts)) => figures.with("instructions", component.of(counts)),
            Some(Err(why)) => figures.with_detail("instructions_missing", why.to_string()),
            None => figures.with_detail("instructions_missing", "not counted in a quick run of all cases"),
        };
        client.report(case, figures)?;
    }
    Ok(())
}

/// The sum of both sides' work, the wait for cache lines, and the null call that has both.
fn call(client: &ScenarioClient) -> Result<(), BenchError> {
    const BOTH: usize = 0;
    const LINES: usize = 1;
    const NULL: usize = 2;
    let probe = calls::import()?;
    client.settle()?;
    let far = client.placement().far.unwrap_or(client.placement().near);
    let mut lines = client.ping("two-ring", ReplyKind::Rings, far);
    let mut null = null("null", 1, &probe);
    let contest = client.contest(&mut [&mut BothSides, &mut lines, &mut null], 0, 1)?;
    let rounds = |subject: usize| contest.measured[subject].rounds.iter();
    let shares = rounds(BOTH).zip(rounds(LINES)).zip(rounds(NULL));
    let explained = Summary::of(shares.map(|((both, lines), null)| (both + lines) / null)).median();
    let paper = [PAPER_US[4] + PAPER_US[9], f64::NAN, PAPER_NULL_US];
    for (subject, case) in CALL.iter().enumerate().filter(|(_, case)| client.wants(case)) {
        let figures = Figures::of(&contest, subject, NULL);
        let figures = match paper[subject] {
            us if us.is_nan() => figures,
            us => figures.with("paper_ns", us * 1e3).with("paper_ratio", us / PAPER_NULL_US),
        };
        client.report(
            case,
            if subject == NULL { null.tell(figures.with("explained", explained)) } else { figures },
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_totals_are_the_papers() {
        for side in [0, 5] {
            assert_eq!(PAPER_US[side..side + 4].iter().sum::<f64>(), PAPER_US[side + 4]);
        }
    }
}
