//! Table 1, and Figures 3 to 5 from it.

use super::hybrid::HybridData;
use super::kernel::{HeldData, KernelCalls, KernelConnection, LockedData, Locking, NOTHING, RUN};
use super::levels::{PAPER_INTERRUPT_US, PAPER_PROCESS_US};
use super::operations::{KernelOperation, OPERATIONS};
use super::timed::{SelfTimed, clock_ns, each};
use crate::measure::contest::{Contest, Subject};
use crate::processes::client::ScenarioClient;
use crate::{BenchError, Figures};
use std::time::Duration;

/// In the order of [`OPERATIONS`].
pub(super) const CASES: &[&str] = &[
    "table1/enqueue-dequeue",
    "table1/find-in-5",
    "table1/find-in-10",
    "table1/create-segment",
    "table1/map-segment",
    "table1/create-process",
];

/// The paper's columns: by local access, by remote access and by remote invocation, each with locks
/// and without. Then the same with hybrid locks, and an invocation that does nothing.
const COLUMNS: [&str; 10] = [
    "local_on",
    "local_off",
    "access_on",
    "access_off",
    "invoke_on",
    "invoke_off",
    "local_hybrid",
    "access_hybrid",
    "invoke_hybrid",
    "invoke_nothing",
];

/// The last of the columns.
const NOTHING_INVOKED: usize = 9;

/// The paper's columns among them.
const PAPERS: usize = 6;

/// The paper's Table 1, in µs.
const PAPER: [[f64; PAPERS]; 6] = [
    [42.4, 21.6, 247.0, 154.0, 197.0, 174.0],
    [25.0, 16.1, 131.0, 87.6, 115.0, 96.7],
    [40.6, 30.5, 211.0, 169.0, 125.0, 105.0],
    [6_200.0, 5_690.0, 14_800.0, 13_100.0, 7_420.0, 6_880.0],
    [960.0, 860.0, 3_050.0, 2_620.0, 1_940.0, 1_770.0],
    [1_430.0, 1_350.0, 3_300.0, 3_040.0, 1_890.0, 1_750.0],
];

/// Longer than any invocation.
const WITHIN: Duration = Duration::from_secs(10);

pub(super) fn measure(client: &ScenarioClient) -> Result<(), BenchError> {
    let home = KernelConnection::import()?;
    let locked = LockedData::of(home.region)?;
    let (held, _locks) = HeldData::of(home.region)?;
    let hybrid = HybridData::import()?;
    client.settle()?;
    let clock = clock_ns();
    for (part, (operation, case)) in OPERATIONS.into_iter().zip(CASES).enumerate() {
        if !client.wants(case) {
            continue;
        }
        let number = operation.number();
        let calls = &home.calls;
        let local = |locking: Locking| {
            move |times| -> Result<u64, BenchError> { Ok(calls.local(number, locking.number(), times)?) }
        };
        let prepared = |locking: Locking| {
            move || -> Result<(), BenchError> { Ok(calls.touch(number, locking.number())?) }
        };
        let invoke = |locking: Locking| {
            let home = &home;
            move |times| each(times, clock, || Ok(()), || invoked(home, operation, locking))
        };
        let mut subjects = (
            SelfTimed::new(COLUMNS[0], local(Locking::Mutexes)),
            SelfTimed::new(COLUMNS[1], local(Locking::None)),
            SelfTimed::new(COLUMNS[2], |times| {
                each(times, clock, prepared(Locking::Mutexes), || operation.run(&locked))
            }),
            SelfTimed::new(COLUMNS[3], |times| {
                each(times, clock, prepared(Locking::None), || operation.run(&held))
            }),
            SelfTimed::new(COLUMNS[4], invoke(Locking::Mutexes)),
            SelfTimed::new(COLUMNS[5], invoke(Locking::None)),
            SelfTimed::new(COLUMNS[6], local(Locking::Hybrid)),
            SelfTimed::new(COLUMNS[7], |times| {
                each(times, clock, prepared(Locking::Hybrid), || operation.run(&hybrid))
            }),
            SelfTimed::new(COLUMNS[8], invoke(Locking::Hybrid)),
            SelfTimed::new(COLUMNS[NOTHING_INVOKED], |times| {
                each(times, clock, || Ok(()), || nothing_invoked(&home, operation))
            }),
        );
        let all: &mut [&mut dyn Subject] = &mut [
            &mut subjects.0,
            &mut subjects.1,
            &mut subjects.2,
            &mut subjects.3,
            &mut subjects.4,
            &mut subjects.5,
            &mut subjects.6,
            &mut subjects.7,
            &mut subjects.8,
            &mut subjects.9,
        ];
        let contest = client.contest(all, part, OPERATIONS.len())?;
        client.report(case, figures(&contest, operation, PAPER[part]))?;
    }
    Ok(())
}

/// Has the home execute it: at interrupt level if it is short.
fn invoked(home: &KernelConnection, operation: KernelOperation, locking: Locking) -> Result<u64, BenchError> {
    if !operation.is_short() {
        return Ok(home.calls.execute(operation.number(), locking.number())?);
    }
    let operands = [operation.number(), locking.number(), 0, 0, 0, 0];
    let [result, ..] = home.invoker.invoke(RUN, operands, WITHIN)?;
    Ok(result)
}

/// The same for an operation that does nothing: what the wake-up of the home costs alone.
fn nothing_invoked(home: &KernelConnection, operation: KernelOperation) -> Result<u64, BenchError> {
    match operation.is_short() {
        true => Ok(home.invoker.invoke(NOTHING, [0; 6], WITHIN)?[0]),
        false => Ok(home.calls.nothing().map(|()| 0)?),
    }
}

/// The columns, and the bars of the figures.
fn figures(contest: &Contest, operation: KernelOperation, paper: [f64; PAPERS]) -> Figures {
    let ns: Vec<f64> = contest.measured.iter().map(|column| column.slices().median()).collect();
    let mut figures = Figures::of(contest, 4, 2)
        .with("locks", operation.locks())
        .with("invoked_at", if operation.is_short() { "interrupt level" } else { "process level" });
    for (name, ns) in COLUMNS.into_iter().zip(&ns) {
        figures = figures.with(&format!("{name}_ns"), *ns);
    }
    for ((name, ours), (_, theirs)) in bars(&ns[..PAPERS]).into_iter().zip(bars(&paper)) {
        figures = figures.with(name, ours).with_detail(&format!("paper_{name}"), theirs);
    }
    let paper_us = if operation.is_short() { PAPER_INTERRUPT_US } else { PAPER_PROCESS_US };
    let theirs = parts(&paper, paper_us);
    for ((name, ours), (_, theirs)) in parts(&ns[..PAPERS], ns[NOTHING_INVOKED]).into_iter().zip(theirs) {
        figures = figures.with(name, ours).with_detail(&format!("paper_{name}"), theirs);
    }
    for (name, us) in COLUMNS.into_iter().zip(paper) {
        figures = figures.with_detail(&format!("paper_{name}_ns"), us * 1e3);
    }
    figures
}

/// The bars of Figures 3, 4 and 5 in per cent, from the columns.
fn bars(columns: &[f64]) -> [(&'static str, f64); 8] {
    let [a, b, c, d, e, f] = *columns else { unreachable!("the paper's Table 1 has six columns") };
    [
        // Figure 3: how much of the time is due to locks.
        ("fig3_local", 100.0 * (a - b) / a),
        ("fig3_access", 100.0 * (c - d) / c),
        ("fig3_invoke", 100.0 * (e - f) / e),
        // Figure 4: how much is due to lines that are not here.
        ("fig4_locking", 100.0 * (d - b) / c),
        ("fig4_no_locking", 100.0 * (d - b) / d),
        // Figure 5: invocation to access, with locks for access alone, for both, and for none.
        ("fig5_access_locks", 100.0 * f / c),
        ("fig5_both_lock", 100.0 * e / c),
        ("fig5_none_locks", 100.0 * f / d),
    ]
}

/// Figure 5 told apart, in per cent of a remote access with locks: the wake-up of the home, and
/// what else an invocation with locks takes there; and what lines that are not here cost the
/// access.
fn parts(columns: &[f64], wake_up: f64) -> [(&'static str, f64); 3] {
    let [_, b, c, d, e, _] = *columns else { unreachable!("the paper's Table 1 has six columns") };
    [
        ("fig5_wake_up", 100.0 * wake_up / c),
        ("fig5_at_home", 100.0 * (e - wake_up) / c),
        ("fig5_memory", 100.0 * (d - b) / c),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_figures_follow_from_its_table() {
        let rounded = |row: usize| bars(&PAPER[row]).map(|(_, per_cent)| per_cent.round() as i64);
        assert_eq!(rounded(0), [49, 38, 12, 54, 86, 70, 80, 113]);
        assert_eq!(rounded(1)[..5], [36, 33, 16, 55, 82]);
    }

    #[test]
    fn the_wake_up_and_the_rest_add_up_to_the_invocation() {
        let [wake_up, at_home, memory] = parts(&PAPER[0], PAPER_INTERRUPT_US).map(|(_, part)| part);
        let both_lock = bars(&PAPER[0])[6].1;
        assert!((wake_up + at_home - both_lock).abs() < 1e-9, "{wake_up} and {at_home} to {both_lock}");
        assert_eq!((wake_up.round(), memory.round()), (23.0, 54.0));
    }
}
