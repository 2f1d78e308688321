//! `throughput` and `figures`: the latency of a call and the calls per second, for growing numbers
//! of threads and processors (URPC, section 4.3).
//!
//! Two sides that both have a processor are a pipeline. The slower side bounds it, by its own
//! components of a call. While one thread waits for its reply the others call, so neither processor
//! waits for a cache line on every call.

use super::components::ComponentTime;
use super::null::null;
use super::{ONE_EACH, ONE_TO_SHARE, Processors, figures, verdicts};
use crate::calls;
use crate::measure::contest::Contest;
use crate::processes::client::ScenarioClient;
use crate::{BenchError, Effort};

/// The number of threads whose calls are judged.
const JUDGED: u64 = 16;

/// Three quarters of what the slower side's own processing allows.
const BAR: f64 = 1.0 / 0.75;

/// Or that many calls per second, if that is less.
const BAR_CALLS_PER_S: f64 = 15e6;

const THREADS: [u64; 6] = [1, 2, 4, 8, 16, 32];

/// With several processors on each side, over the same binding, the client's activations call over
/// channels of their own. Only C = S = 1 is judged.
pub(super) fn throughput(
    client: &ScenarioClient,
    case: &str,
    processors: Processors,
) -> Result<(), BenchError> {
    let probe = calls::import()?;
    client.settle()?;
    for (part, threads) in THREADS.into_iter().enumerate() {
        let threads = threads * processors.clients as u64;
        let (mut slower, mut many) = (ComponentTime::slower(processors), null("callers", threads, &probe));
        let contest = client.contest(&mut [&mut slower, &mut many], part, THREADS.len())?;
        let figures = figures(&contest, (1, 0), (&many, processors));
        let met = figures.ratio <= BAR || 1e9 / figures.ns >= BAR_CALLS_PER_S;
        let judged = if threads == JUDGED && processors == ONE_EACH {
            figures.judged("bar", BAR, met)
        } else {
            figures
        };
        client.report(case, judged)?;
    }
    Ok(())
}

/// The numbers of threads of Figures 3 and 4, and more.
const FIGURE_THREADS: [u64; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 32];
/// Those of a quick run.
const FEW: [u64; 3] = [1, 2, 4];

/// A row's share of the usual time, because there are many rows.
const SHARE: u32 = 4;

/// A point of the paper's figures that its text describes.
struct Point {
    /// 0 stands for any large number.
    threads: u64,
    processors: Processors,
    us: Option<f64>,
    calls_per_s: Option<f64>,
}

const PAPER: [Point; 4] = [
    Point { threads: 1, processors: ONE_EACH, us: Some(93.0), calls_per_s: Some(10_300.0) },
    Point { threads: 2, processors: ONE_EACH, us: Some(112.0), calls_per_s: Some(17_850.0) },
    Point { threads: 0, processors: TWO_EACH, us: None, calls_per_s: Some(23_800.0) },
    Point { threads: 1, processors: ONE_TO_SHARE, us: Some(375.0), calls_per_s: None },
];

const TWO_EACH: Processors = Processors { clients: 2, servers: 2 };

/// One line of Figure 3, and of Figure 4.
pub(super) fn figure(client: &ScenarioClient, case: &str, processors: Processors) -> Result<(), BenchError> {
    let probe = calls::import()?;
    client.settle()?;
    let effort = client.effort();
    let effort = Effort { budget: effort.budget / SHARE, ..effort };
    let wanted = |threads: &u64| !effort.few || FEW.contains(threads);
    let all: Vec<u64> = FIGURE_THREADS.into_iter().filter(wanted).collect();
    let shape = (processors.clients as u64, processors.servers as u64);
    let mut rates = Vec::new();
    for (part, &threads) in all.iter().enumerate() {
        let (mut limit, mut calls) = (client.limit(), null("callers", threads, &probe));
        let mut progress = |share| client.progress((part as f64 + share) / all.len() as f64);
        let contest = Contest::hold(&mut [&mut limit, &mut calls], effort, &mut progress)?;
        let mut figures = figures(&contest, (1, 0), (&calls, processors));
        figures = figures.with("latency_ns", contest.measured[1].singles.median());
        let same = |point: &&Point| {
            let large = point.threads == 0 && threads > processors.all();
            (point.threads == threads || large) && point.processors == processors
        };
        if let Some(point) = PAPER.iter().find(same) {
            figures = point.us.into_iter().fold(figures, |f, us| f.with("paper_latency_ns", us * 1e3));
            figures =
                point.calls_per_s.into_iter().fold(figures, |f, rate| f.with("paper_calls_per_s", rate));
        }
        rates.push((threads, 1e9 / figures.ns));
        let verdict = if part + 1 == all.len() { verdicts::throughput(&rates, shape) } else { None };
        client.report(case, figures.with_verdict(verdict))?;
    }
    Ok(())
}
