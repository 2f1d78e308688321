//! `throughput` and `figures`: the latency of a call and the calls per second, for growing numbers
//! of threads and processors (URPC, section 4.3).
//!
//! Two sides that both have a processor are a pipeline. The slower side bounds it, by its own
//! components of a call. While one thread waits for its reply the others call, so neither processor
//! waits for a cache line on every call.

use super::components::ComponentTime;
use super::null::null;
use super::{ONE_EACH, ONE_TO_SHARE, Processors, figures};
use crate::calls;
use crate::measure::contest::Contest;
use crate::processes::client::ScenarioClient;
use crate::report::verdict::ClaimVerdict;
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
const FEW: [u64; 2] = [1, 4];

/// More than this much more throughput is growth.
const GROWS: f64 = 1.1;

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

/// Whether T is large: every processor has a call, and another one is waiting.
fn is_large(threads: u64, Processors { clients, servers }: Processors) -> bool {
    threads > (clients + servers) as u64
}

/// One line of Figure 3, and of Figure 4.
pub(super) fn figure(client: &ScenarioClient, case: &str, processors: Processors) -> Result<(), BenchError> {
    let probe = calls::import()?;
    client.settle()?;
    let effort = client.effort();
    let effort = Effort { budget: effort.budget / SHARE, ..effort };
    let wanted = |threads: &u64| !effort.few || FEW.contains(threads);
    let all: Vec<u64> = FIGURE_THREADS.into_iter().filter(wanted).collect();
    let mut rates = Vec::new();
    for (part, &threads) in all.iter().enumerate() {
        let (mut limit, mut calls) = (client.limit(), null("callers", threads, &probe));
        let mut progress = |share| client.progress((part as f64 + share) / all.len() as f64);
        let contest = Contest::hold(&mut [&mut limit, &mut calls], effort, &mut progress)?;
        let mut figures = figures(&contest, (1, 0), (&calls, processors));
        figures = figures.with("latency_ns", contest.measured[1].singles.median());
        let same = |point: &&Point| {
            let large = point.threads == 0 && is_large(threads, processors);
            (point.threads == threads || large) && point.processors == processors
        };
        if let Some(point) = PAPER.iter().find(same) {
            figures = point.us.into_iter().fold(figures, |f, us| f.with("paper_latency_ns", us * 1e3));
            figures =
                point.calls_per_s.into_iter().fold(figures, |f, rate| f.with("paper_calls_per_s", rate));
        }
        rates.push((threads, 1e9 / figures.ns));
        let verdict = if part + 1 == all.len() { levels_off(&rates, processors) } else { None };
        client.report(case, figures.with_verdict(verdict))?;
    }
    Ok(())
}

/// The paper's claim about Figure 4, for the calls per second of each number of threads. Where the
/// server has no processors the paper's curve goes on growing, because more calls share each
/// reallocation.
fn levels_off(rates: &[(u64, f64)], processors: Processors) -> Option<ClaimVerdict> {
    let best = |large: bool| {
        let rates = rates.iter().filter(|(threads, _)| is_large(*threads, processors) == large);
        rates.map(|&(_, rate)| rate).max_by(f64::total_cmp)
    };
    let (few, many) = (best(false)?, best(true)?);
    let growth = many / few;
    let because = format!("more than C + S threads make {growth:.2} times as many calls a second");
    if processors.servers == 0 {
        let claim = "with S = 0 more threads share each reallocation";
        return Some(ClaimVerdict { claim, holds: growth > GROWS, because });
    }
    let (_, one) = rates.first()?;
    let (_, each) = rates.iter().rfind(|(threads, _)| !is_large(*threads, processors))?;
    let grows = each / one;
    let because = format!("{because}, and the last of fewer {grows:.2} times as many as one");
    let holds = grows > GROWS && each * GROWS >= few && growth <= GROWS;
    Some(ClaimVerdict { claim: "throughput grows until T = C + S", holds, because })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_that_grows_past_the_processors_refutes_the_paper() {
        let holds = |rates: &[(u64, f64)], processors| levels_off(rates, processors).map(|v| v.holds);
        let flat = [(1, 1.0), (2, 1.8), (3, 1.85), (32, 1.9)];
        let grows = [(1, 1.0), (2, 1.8), (3, 2.5), (32, 4.0)];
        assert_eq!(holds(&flat, ONE_EACH), Some(true));
        assert_eq!(holds(&grows, ONE_EACH), Some(false));
        assert_eq!(holds(&grows[..2], ONE_EACH), None, "nothing was measured past T = C + S");
        assert_eq!(holds(&grows, ONE_TO_SHARE), Some(true));
        let falls = [(1, 1.0), (2, 1.8), (3, 1.2), (4, 0.9), (32, 0.8)];
        assert_eq!(holds(&falls, TWO_EACH), Some(false), "it falls before T = C + S");
    }
}
