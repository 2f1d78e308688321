//! `othreads-fig5` and `othreads-fig6`: 1 to 20 threads synchronize with each other. At intervals
//! they call another domain and block there until all have come (OThreads, section 4.2).
//!
//! User-level threads are compared with kernel threads. Both make the same calls with the same
//! client, all on one CPU, as in the paper. The paper made 30 million operations, with a call every
//! 100,000. Here there are fewer operations, with at least as many calls per operation.

mod domain_barrier;
mod runs;

use crate::catalogue::{Benchmark, Scenario};
use crate::measure::contest::{Contest, Subject};
use crate::processes::client::ScenarioClient;
use crate::{BenchError, Effort, Figures, Pinning};
use domain_barrier::{DomainBarrierClient, serve};
use runs::{Run, Work, kernel, ours};

const CASES: [&str; 20] = [
    "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19",
    "20",
];

/// The threads in a quick run.
const FEW: [u64; 4] = [1, 2, 8, 20];

pub(crate) const SPINLOCKS: Benchmark = Benchmark {
    name: "othreads-fig5",
    about: "spin locks by 1 to 20 threads that now and then call another domain, beside kernel threads",
    scenarios: &[scenario("spinlocks", |client| measure(client, Figure::Spinlocks))],
};

pub(crate) const BARRIERS: Benchmark = Benchmark {
    name: "othreads-fig6",
    about: "the same with a blocking barrier in place of the spin lock",
    scenarios: &[scenario("barriers", |client| measure(client, Figure::Barriers))],
};

const fn scenario(name: &'static str, client: fn(&ScenarioClient) -> Result<(), BenchError>) -> Scenario {
    Scenario { name, cases: &CASES, pinning: Pinning::Together, client, server: serve }
}

/// The sides' numbers in a contest.
const OURS: usize = 0;
const KERNEL: usize = 1;

#[derive(Clone, Copy)]
enum Figure {
    Spinlocks,
    Barriers,
}

impl Figure {
    /// The operations of all threads together, and the operations of a thread before each call.
    fn work(self, quick: bool) -> Work {
        let (operations, each) = match (self, quick) {
            (Self::Spinlocks, false) => (3_000_000, 10_000),
            (Self::Spinlocks, true) => (200_000, 10_000),
            (Self::Barriers, false) => (60_000, 1_000),
            (Self::Barriers, true) => (4_000, 200),
        };
        Work { operations, each }
    }
}

fn measure(client: &ScenarioClient, figure: Figure) -> Result<(), BenchError> {
    underpass::processors::set(1);
    let meeting = domain_barrier::import()?;
    let quick = client.effort().few;
    let work = figure.work(quick);
    let rounds = if quick { 1 } else { 3 };
    let effort = Effort { least: rounds, most: rounds, ..client.effort() };
    let wanted = |threads: &u64| {
        client.wants(CASES[*threads as usize - 1]) && (!client.few() || FEW.contains(threads))
    };
    let all: Vec<u64> = (1..=CASES.len() as u64).filter(wanted).collect();
    for (part, &threads) in all.iter().enumerate() {
        let [mut ours, mut kernel] = sides(figure, &meeting, threads, work);
        let mut progress = |share| client.progress((part as f64 + share) / all.len() as f64);
        let mut subjects: [&mut dyn Subject; 2] = [&mut ours, &mut kernel];
        let operations = [work.operations; 2];
        let contest = Contest::of(&mut subjects, &operations, effort, &mut progress)?;
        client.report(CASES[threads as usize - 1], figures(&contest, work))?;
    }
    Ok(())
}

fn sides(figure: Figure, meeting: &DomainBarrierClient, threads: u64, work: Work) -> [Run; 2] {
    let run = |name, function| Run::new(name, function, meeting.clone(), threads, work);
    match figure {
        Figure::Spinlocks => [run("ours", ours::spinlocks), run("std", kernel::spinlocks)],
        Figure::Barriers => [run("ours", ours::barriers), run("std", kernel::barriers)],
    }
}

/// User-level threads compared with kernel threads.
fn figures(contest: &Contest, work: Work) -> Figures {
    let figures = Figures::of(contest, OURS, KERNEL);
    let elapsed = |ns: f64| ns * work.operations as f64;
    let (ours, kernel, ratio) = (elapsed(figures.ns), elapsed(figures.limit_ns), figures.ratio);
    figures
        .with("operations", work.operations)
        .with("elapsed_ns", ours)
        .with("std_elapsed_ns", kernel)
        .with("speedup", 1.0 / ratio)
}
