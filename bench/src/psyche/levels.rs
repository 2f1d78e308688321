//! `levels`: an invocation that does nothing, at interrupt level and at process level (Psyche,
//! section 5.3: 56 and 421 µs), while the home polls, and while one of its threads computes.

use super::kernel::{KernelCalls, KernelConnection, NOTHING};
use super::timed::{SelfTimed, clock_ns, each};
use crate::measure::contest::{Contest, Subject};
use crate::processes::client::ScenarioClient;
use crate::{BenchError, Figures};
use std::time::Duration;

pub(super) const CASES: &[&str] = &["levels/polling", "levels/busy"];

/// The paper's times of an invocation without the operation itself, at interrupt level and at
/// process level.
pub(super) const PAPER_INTERRUPT_US: f64 = 56.0;
pub(super) const PAPER_PROCESS_US: f64 = 421.0;

/// Longer than any invocation.
const WITHIN: Duration = Duration::from_secs(10);
/// Invocations in a slice, while the home computes: each may wait for a time slice.
const FEW: u64 = 3;

pub(super) fn measure(client: &ScenarioClient) -> Result<(), BenchError> {
    let home = KernelConnection::import()?;
    client.settle()?;
    let clock = clock_ns();
    // The home has just served a call, so that it polls unless a thread computes.
    let serve = || -> Result<(), BenchError> { Ok(home.calls.nothing()?) };
    let invoke = || -> Result<u64, BenchError> { Ok(home.invoker.invoke(NOTHING, [0; 6], WITHIN)?[0]) };
    let call = || home.calls.nothing().map(|()| 0).map_err(BenchError::from);
    for (part, case) in CASES.iter().enumerate().filter(|(_, case)| client.wants(case)) {
        let busy = *case == "levels/busy";
        home.calls.keep_busy(busy)?;
        let mut interrupt = SelfTimed::new("interrupt-level", |times| each(times, clock, serve, invoke));
        let mut process = SelfTimed::new("process-level", |times| each(times, clock, serve, call));
        let subjects: &mut [&mut dyn Subject] = &mut [&mut interrupt, &mut process];
        let contest = match busy {
            false => client.contest(subjects, part, CASES.len())?,
            true => Contest::of(subjects, &[FEW; 2], client.effort(), &mut |share| client.progress(share))?,
        };
        let figures = Figures::of(&contest, 0, 1)
            .with("process_level_ns", contest.measured[1].slices().median())
            .with("paper_ratio", PAPER_INTERRUPT_US / PAPER_PROCESS_US)
            .with_detail("paper_ns", PAPER_INTERRUPT_US * 1e3)
            .with_detail("paper_process_level_ns", PAPER_PROCESS_US * 1e3);
        client.report(case, figures)?;
    }
    Ok(home.calls.keep_busy(false)?)
}
