//! `othreads-fig5`, `-fig6` and `-fig7`: 1 to 20 threads synchronize with each other, or make calls
//! (OThreads, section 4.2).
//!
//! In Figures 5 and 6 the threads call another domain at intervals, and block there until all have
//! come. In Figure 7 they do nothing but call it. User-level threads are compared with kernel
//! threads. Both make the same calls with the same client, all on one CPU, as in the paper.
//!
//! In Figure 5 the paper's 100,000 operations of each thread lasted for several of its kernel's
//! time slices. Today they take a fraction of one, in which nobody loses the processor while it
//! holds the lock. So the number of operations follows from their cost: between two calls of the
//! threads lie 50 time slices or more. Figure 6 has fewer barriers than the paper, with more calls
//! for each. In Figure 7 each thread makes the paper's 100,000 calls.

mod domain_barrier;
mod runs;
mod table2;
pub(crate) mod verdicts;

use crate::catalogue::{Benchmark, Scenario};
use crate::measure::contest::{Contest, Subject};
use crate::processes::client::ScenarioClient;
use crate::report::verdict::ClaimVerdict;
use crate::{BenchError, Effort, Figures, Pinning};
use domain_barrier::serve;
use runs::{FigureLine, Run, Spinlock, Spinner, Work, kernel, ours};
pub(crate) use table2::TABLE2;
use underpass_os::clock::now_ns;
use verdicts::CurvePoint;

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

pub(crate) const CALLS: Benchmark = Benchmark {
    name: "othreads-fig7",
    about: "100,000 calls of another domain by each of 1 to 20 threads, beside kernel threads",
    scenarios: &[scenario("calls", |client| measure(client, Figure::Calls))],
};

const fn scenario(name: &'static str, client: fn(&ScenarioClient) -> Result<(), BenchError>) -> Scenario {
    Scenario { name, cases: &CASES, pinning: Pinning::Together, client, server: serve }
}

/// The lines' numbers in a contest.
const OURS: usize = 0;
const KERNEL: usize = 1;
const GIVING_WAY: usize = 2;

/// The longest time slice of a kernel thread for which others wait. Linux gives 3 ms where there
/// are 8 CPUs or more, and looks at each tick, of which there are 250 a second or more.
const SLICE_NS: f64 = 4e6;
/// The time slices between two calls that Figure 5 aims at: a fifth more than it needs.
const AIM: f64 = 1.2 * verdicts::SLICES;
/// How often each thread of Figure 5 calls.
const CALLS_OF_EACH: u64 = 2;

/// The ns of an operation of Figure 5 by a single thread.
fn spin_ns() -> f64 {
    const SOME: u64 = 1_000_000;
    let lock = Spinlock::new(Spinner::Stays);
    let begun = now_ns();
    (0..SOME).for_each(|_| lock.count_one());
    (now_ns() - begun) as f64 / SOME as f64
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Figure {
    Spinlocks,
    Barriers,
    Calls,
}

impl Figure {
    /// The operations of all threads together, and the operations of a thread before each call.
    /// `spin_ns` is what an operation of Figure 5 takes.
    fn work(self, threads: u64, quick: bool, spin_ns: f64) -> Work {
        let (operations, each) = match (self, quick) {
            (Self::Spinlocks, _) => {
                let between = (AIM * SLICE_NS / spin_ns) as u64;
                let calls = if quick { 1 } else { CALLS_OF_EACH };
                (calls * between, between / threads)
            }
            (Self::Barriers, false) => (60_000, 1_000),
            (Self::Barriers, true) => (4_000, 200),
            // Nobody waits for others in between.
            (Self::Calls, false) => (100_000 * threads, u64::MAX),
            (Self::Calls, true) => (500 * threads, u64::MAX),
        };
        Work { operations, each }
    }

    /// The lines of the paper's graph.
    fn lines(self) -> Vec<FigureLine> {
        let line = |name, function, spinner| FigureLine { name, function, spinner };
        match self {
            Self::Spinlocks => vec![
                line("ours", ours::spinlocks, Spinner::Stays),
                line("std", kernel::spinlocks, Spinner::Stays),
                line("std-giving-way", kernel::spinlocks, Spinner::GivesWay),
            ],
            Self::Barriers => vec![
                line("ours", ours::barriers, Spinner::Stays),
                line("std", kernel::barriers, Spinner::Stays),
            ],
            Self::Calls => {
                vec![line("ours", ours::calls, Spinner::Stays), line("std", kernel::calls, Spinner::Stays)]
            }
        }
    }

    fn verdict(self, points: &[CurvePoint]) -> Option<ClaimVerdict> {
        match self {
            Self::Spinlocks => verdicts::spinlocks(points),
            Self::Barriers => verdicts::barriers(points),
            Self::Calls => verdicts::calls(points),
        }
    }
}

fn measure(client: &ScenarioClient, figure: Figure) -> Result<(), BenchError> {
    underpass::processors::set(1);
    let meeting = domain_barrier::import()?;
    let quick = client.effort().few;
    let rounds = if quick { 1 } else { 3 };
    let effort = Effort { least: rounds, most: rounds, ..client.effort() };
    let wanted = |threads: &u64| {
        client.wants(CASES[*threads as usize - 1]) && (!client.few() || FEW.contains(threads))
    };
    let all: Vec<u64> = (1..=CASES.len() as u64).filter(wanted).collect();
    let spin_ns = if figure == Figure::Spinlocks { spin_ns() } else { f64::NAN };
    let mut points = Vec::new();
    for (part, &threads) in all.iter().enumerate() {
        let work = figure.work(threads, quick, spin_ns);
        let lines = figure.lines().into_iter();
        let mut runs: Vec<Run> = lines.map(|line| Run::new(line, meeting.clone(), threads, work)).collect();
        let mut progress = |share| client.progress((part as f64 + share) / all.len() as f64);
        let mut subjects: Vec<&mut dyn Subject> =
            runs.iter_mut().map(|run| run as &mut dyn Subject).collect();
        let operations = vec![work.operations; subjects.len()];
        let contest = Contest::of(&mut subjects, &operations, effort, &mut progress)?;
        let point = point(&contest, threads, work);
        let figures = match point.slices {
            Some(slices) => figures(&contest, work).with("slices_between_calls", slices),
            None => figures(&contest, work),
        };
        points.push(point);
        let verdict = if part + 1 == all.len() { figure.verdict(&points) } else { None };
        client.report(CASES[threads as usize - 1], figures.with_verdict(verdict))?;
    }
    Ok(())
}

/// The ns that a line took in all, if the figure has it.
fn elapsed(contest: &Contest, work: Work, line: usize) -> Option<f64> {
    Some(contest.measured.get(line)?.slices().median() * work.operations as f64)
}

fn point(contest: &Contest, threads: u64, work: Work) -> CurvePoint {
    let of = |line| elapsed(contest, work, line);
    CurvePoint {
        threads,
        ours: of(OURS).unwrap_or(f64::NAN),
        kernel: of(KERNEL).unwrap_or(f64::NAN),
        giving_way: of(GIVING_WAY),
        // Only Figure 5 has the third line.
        slices: of(GIVING_WAY).and(of(OURS)).map(|ns| ns / work.calls(threads) as f64 / SLICE_NS),
    }
}

/// User-level threads compared with kernel threads.
fn figures(contest: &Contest, work: Work) -> Figures {
    let figures = Figures::of(contest, OURS, KERNEL);
    let of = |line| elapsed(contest, work, line);
    let speedup = 1.0 / figures.ratio;
    let figures = figures
        .with("operations", work.operations)
        .with("elapsed_ns", of(OURS))
        .with("std_elapsed_ns", of(KERNEL))
        .with("speedup", speedup);
    match of(GIVING_WAY) {
        Some(ns) => figures.with("std_giving_way_elapsed_ns", ns),
        None => figures,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_figure_5_spin_for_many_slices_between_two_calls() {
        for (threads, quick) in [(1, false), (7, false), (20, false), (20, true)] {
            let work = Figure::Spinlocks.work(threads, quick, 2.2);
            let slices = work.operations as f64 * 2.2 / work.calls(threads) as f64 / SLICE_NS;
            assert!((verdicts::SLICES..70.0).contains(&slices), "{threads}: {slices}");
        }
    }
}
