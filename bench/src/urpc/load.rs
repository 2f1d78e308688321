//! `throughput` and `figures`: the latency of a call and the calls per second, for growing numbers
//! of threads and processors (URPC, section 4.3).
//!
//! Two sides that both have a processor are a pipeline. The slower side bounds it, by its own
//! components of a call. While one thread waits for its reply the others call, so neither processor
//! waits for a cache line on every call.
//!
//! The threads call for a window of time. In Figures 3 and 4 the limit is what as many raw pairs of
//! rings do at once as there are pairs of processors.

use super::components::ComponentTime;
use super::null::null;
use super::{ONE_EACH, ONE_TO_SHARE, Processors, figures, verdicts};
use crate::calls;
use crate::measure::contest::{Contest, Subject};
use crate::processes::client::ScenarioClient;
use crate::raw::pairs::RawPairs;
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
        let mut slower = ComponentTime::slower(processors);
        let mut many = null("callers", threads, &probe).within(client.effort().slice);
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

/// The numbers of threads of Figures 3 and 4.
const FIGURE_THREADS: [u64; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 32];
/// More of them, in parts of all processors: the curves turn at T = C + S.
const BY_PROCESSORS: [u64; 4] = [1, 2, 4, 8];
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

/// The numbers of threads of a line: they grow with C and S.
fn numbers_of_threads(processors: Processors, few: bool) -> Vec<u64> {
    if few {
        return FEW.to_vec();
    }
    let more = BY_PROCESSORS.map(|times| times * processors.all());
    let mut all = [&FIGURE_THREADS[..], &more].concat();
    all.sort_unstable();
    all.dedup();
    all
}

/// One line of Figure 3, and of Figure 4.
pub(super) fn figure(client: &ScenarioClient, case: &str, processors: Processors) -> Result<(), BenchError> {
    let probe = calls::import()?;
    client.settle()?;
    let effort = client.effort();
    let effort = Effort { budget: effort.budget / SHARE, ..effort };
    let all = numbers_of_threads(processors, effort.few);
    let mut rings = match processors.servers {
        0 => None,
        _ => Some(RawPairs::between(client.sides()?, effort.slice)?),
    };
    let shape = (processors.clients as u64, processors.servers as u64);
    let mut rates = Vec::new();
    for (part, &threads) in all.iter().enumerate() {
        let mut donated = client.limit();
        let limit: &mut dyn Subject = match &mut rings {
            Some(rings) => rings,
            None => &mut donated,
        };
        let mut calls = null("callers", threads, &probe).within(effort.slice);
        let mut progress = |share| client.progress((part as f64 + share) / all.len() as f64);
        let contest = Contest::hold(&mut [limit, &mut calls], effort, &mut progress)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_threads_grow_with_the_processors() {
        assert_eq!(numbers_of_threads(ONE_EACH, false), FIGURE_THREADS);
        let eight_each = numbers_of_threads(Processors { clients: 8, servers: 8 }, false);
        assert_eq!(eight_each, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 32, 64, 128]);
        let beyond = |processors: Processors, few| {
            numbers_of_threads(processors, few)
                .into_iter()
                .filter(|threads| *threads > processors.all())
                .count()
        };
        assert!(beyond(ONE_TO_SHARE, true) > 1 && beyond(ONE_EACH, true) == 1);
    }
}
