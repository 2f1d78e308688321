//! Four domains, each with the program of OThreads' Figure 5 or 6.

use super::domain::DomainOrder;
use super::parties::{DomainSet, Setting};
use crate::processes::client::ScenarioClient;
use crate::{BenchError, Figures, Summary};

/// The bar: the time of an operation, relative to that without a server.
const BAR: f64 = 0.5;
/// Rounds, and the ms of each.
const FULL: (usize, u64) = (15, 500);
const QUICK: (usize, u64) = (2, 60);

pub(super) fn locks(client: &ScenarioClient) -> Result<(), BenchError> {
    measure(client, "locks", |threads, ms| DomainOrder::Locks { threads, ms })
}

pub(super) fn barriers(client: &ScenarioClient) -> Result<(), BenchError> {
    measure(client, "barriers", |threads, ms| DomainOrder::Barriers { threads, ms })
}

fn measure(
    client: &ScenarioClient,
    case: &str,
    order: fn(u64, u64) -> DomainOrder,
) -> Result<(), BenchError> {
    let (rounds, ms) = if client.effort().few { QUICK } else { FULL };
    let settings = [Setting::With, Setting::Without, Setting::Kernel];
    let mut sets = settings
        .into_iter()
        .map(|setting| DomainSet::start(client, setting, 4, false))
        .collect::<Result<Vec<_>, _>>()?;
    // The ns of one operation.
    let mut took = [const { Vec::new() }; 3];
    let threads = 2 * client.placement().all.len() as u64;
    for round in 0..rounds {
        for (set, took) in sets.iter_mut().zip(&mut took) {
            let begun = underpass_os::clock::now_ns();
            let done = DomainSet::order(&mut set.domains, |_| order(threads, ms))?;
            let ns = underpass_os::clock::now_ns() - begun;
            took.push(ns as f64 / done.into_iter().flatten().sum::<f64>().max(1.0));
        }
        client.progress((round + 1) as f64 / rounds as f64);
    }
    let ratios = Summary::of(took[0].iter().zip(&took[1]).map(|(with, without)| with / without));
    let [with, without, kernel] = took.map(Summary::of);
    let figures = Figures {
        min_ns: with.min(),
        max_ns: with.max(),
        p99_ns: with.p99(),
        ratio: ratios.median(),
        ratio_p10: ratios.quantile(0.1),
        ratio_p90: ratios.quantile(0.9),
        rounds,
        ..Figures::one(with.median(), "the same without a server", without.median())
    };
    let is_met = figures.ratio <= BAR;
    client.report(case, figures.with("kernel_ns", kernel.median()).judged("bar", BAR, is_met))
}
