//! What a thread that computes at home loses, while the other domain works on the home's data
//! (Psyche, section 5.3): by remote access nothing but memory's time, by invocation the processor.
//!
//! The home writes the data all the time. The other domain waits after each operation until the
//! home has written them again: otherwise they would stay in its own cache, and an access would be
//! a local one.

use super::kernel::{KernelCalls, KernelConnection, LockedData, Locking, RUN, compute};
use super::operations::{KernelOperation, LINE, QUEUE};
use super::timed::{clock_ns, each};
use crate::processes::client::ScenarioClient;
use crate::{BenchError, Figures, Summary};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use underpass_os::clock::now_ns;

/// The operation that is repeated.
const OPERATION: KernelOperation = KernelOperation::EnqueueDequeue;
/// The ways: nothing, by access, at interrupt level, at process level.
const WAYS: [&str; 4] = ["alone", "access", "interrupt", "call"];
/// Longer than any invocation.
const WITHIN: Duration = Duration::from_secs(10);
/// The least time between two operations, in which the home writes the data: several steps of its
/// computing.
const PAUSE_NS: u64 = 5_000;
/// So often the time of a slice, the computing takes.
const SLICES: u64 = 10;

/// What one turn took.
struct Turn {
    /// The computing at home, in ns.
    computed: u64,
    /// The operations meanwhile, and what they took in all, without the pauses.
    operations: u64,
    operated_ns: u64,
}

pub(super) fn measure(client: &ScenarioClient) -> Result<(), BenchError> {
    let home = KernelConnection::import()?;
    let locked = LockedData::of(home.region)?;
    client.settle()?;
    let (effort, clock) = (client.effort(), clock_ns());
    let begun = now_ns();
    (0..1_000).fold(1, |number, _| std::hint::black_box(compute(number)));
    let each = ((now_ns() - begun) / 1_000).max(1);
    let amount = (effort.slice.as_nanos() as u64 * SLICES / each).max(1);
    let mut turns: [Vec<Turn>; 4] = Default::default();
    let rounds = effort.least;
    for round in 0..rounds {
        client.progress(round as f64 / rounds as f64);
        for (way, turns) in WAYS.iter().zip(&mut turns) {
            turns.push(turn(&home, &locked, (way, clock), amount)?);
        }
    }
    let median = |of: &dyn Fn(&Turn) -> f64, way: usize| Summary::of(turns[way].iter().map(of)).median();
    let computed = |way| median(&|turn| turn.computed as f64, way);
    let alone = computed(0);
    let figures = Figures::one(computed(2), "alone", alone).with("computing_ns", alone);
    let mut figures = figures.with("touched_lines", QUEUE / LINE);
    for (way, name) in WAYS.iter().enumerate().skip(1) {
        let (operations, took) =
            (median(&|turn| turn.operations as f64, way), median(&|turn| turn.operated_ns as f64, way));
        let operation = took / operations.max(1.0);
        let lost = (computed(way) - alone).max(0.0) / operations.max(1.0);
        figures = figures
            .with(&format!("{name}_ns"), operation)
            .with(&format!("{name}_lost_ns"), lost)
            .with(&format!("{name}_slowdown"), computed(way) / alone)
            .with_detail(&format!("{name}_lost"), lost / operation)
            .with_detail(&format!("{name}_operations"), operations);
    }
    // Of 19 ms by access 1 ms, and of 22 ms at interrupt level 17 ms.
    let figures =
        figures.with_detail("paper_access_lost", 1.0 / 19.0).with_detail("paper_interrupt_lost", 17.0 / 22.0);
    client.report("slowdown", figures)
}

/// The home computes, and this domain operates until it is done.
fn turn(
    home: &KernelConnection,
    locked: &LockedData,
    (way, clock): (&str, u64),
    amount: u64,
) -> Result<Turn, BenchError> {
    let done = Arc::new(AtomicBool::new(false));
    let (calls, ends) = (home.calls.clone(), done.clone());
    let computing = std::thread::spawn(move || {
        let computed = calls.compute(amount, OPERATION.number());
        ends.store(true, Ordering::Relaxed);
        computed
    });
    let (number, locking) = (OPERATION.number(), Locking::Mutexes.number());
    let operate = || -> Result<u64, BenchError> {
        match way {
            "access" => OPERATION.run(locked),
            "interrupt" => Ok(home.invoker.invoke(RUN, [number, locking, 0, 0, 0, 0], WITHIN)?[0]),
            _ => Ok(home.calls.execute(number, locking)?),
        }
    };
    let (mut operations, mut operated_ns) = (0, 0);
    while way != "alone" && !done.load(Ordering::Relaxed) {
        let until = now_ns() + PAUSE_NS;
        while now_ns() < until {
            std::hint::spin_loop();
        }
        operated_ns += each(1, clock, || Ok(()), operate)?;
        operations += 1;
    }
    let computed = computing.join().map_err(|_| "a calling thread panicked")??;
    Ok(Turn { computed, operations, operated_ns })
}
