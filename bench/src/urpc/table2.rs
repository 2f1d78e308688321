//! `table2`: where the time of a call goes, and its instructions (URPC, section 4.2).

use super::components::{CLIENT, Component, SERVER, Sum};
use super::count;
use crate::measure::contest::Contest;
use crate::measure::in_process;
use crate::processes::client::ScenarioClient;
use crate::{BenchError, Effort, Figures};
use std::time::Duration;

pub(super) const CASES: [&str; 10] = [
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

/// The paper's times in µs, in the order of the cases. A procedure call took 7 µs there.
const PAPER_US: [f64; 10] = [18.0, 6.0, 10.0, 20.0, 54.0, 13.0, 6.0, 9.0, 25.0, 53.0];
const PAPER_CALL_US: f64 = 7.0;

/// Each timed component runs through all components.
const SLICE: Duration = Duration::from_micros(300);

/// A side's total comes after its four components.
fn components(case: usize) -> Vec<Component> {
    let side = if case < 5 { CLIENT } else { SERVER };
    side.get(case % 5).map_or(side.to_vec(), |&one| vec![one])
}

pub(super) fn client(client: &ScenarioClient) -> Result<(), BenchError> {
    underpass::processors::set(1);
    let effort = Effort { slice: SLICE.min(client.effort().slice), ..client.effort() };
    let mut missing = None;
    for (number, case) in CASES.iter().enumerate().filter(|(_, case)| client.wants(case)) {
        let (mut unit, mut sum) = (in_process::call(), Sum::of(case, &components(number)));
        let mut progress = |share| client.progress((number as f64 + share) / CASES.len() as f64);
        let contest = Contest::hold(&mut [&mut unit, &mut sum], effort, &mut progress)?;
        let paper = PAPER_US[number];
        let figures = Figures::of(&contest, 1, 0);
        let figures = figures.with("paper_ns", paper * 1e3).with("paper_ratio", paper / PAPER_CALL_US);
        // Counting takes seconds, so a quick run does without.
        let counted = (!client.few()).then(|| count::instructions(&components(number)));
        let figures = match counted {
            Some(Ok(instructions)) => figures.with("instructions", instructions),
            Some(Err(why)) => {
                if missing.is_none() {
                    client.note(&format!("no instructions of {case}: {why}"))?;
                }
                let figures = figures.with_detail("instructions_missing", why.to_string());
                missing = Some(why);
                figures
            }
            None => figures.with_detail("instructions_missing", "not counted in a quick run of all cases"),
        };
        client.report(case, figures)?;
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
            let parts: Vec<_> = (side..side + 4).flat_map(components).collect();
            assert_eq!((parts.len(), components(side + 4)), (4, parts));
        }
    }
}
