//! Three domains compute all the time, and a fourth one computes for a moment now and then.

use super::domain::DomainOrder;
use super::parties::{DomainSet, Setting};
use crate::processes::client::ScenarioClient;
use crate::{BenchError, Figures, Summary};

/// The bar for the 99th percentile of the interactive one, relative to that without a server.
const P99: f64 = 0.5;
/// The bar for what the others compute, relative to that without a server.
const THROUGHPUT: f64 = 0.97;
/// Rounds, and moments in each.
const FULL: (usize, u64) = (20, 100);
const QUICK: (usize, u64) = (2, 15);

/// A moment of the interactive domain.
pub(super) const MOMENT: (u64, u64) = (5_000, 300);

pub(super) fn measure(client: &ScenarioClient) -> Result<(), BenchError> {
    let (rounds, times) = if client.effort().few { QUICK } else { FULL };
    let settings = [Setting::With, Setting::Without, Setting::Kernel];
    let mut sets = settings
        .into_iter()
        .map(|setting| DomainSet::start(client, setting, 4, false))
        .collect::<Result<Vec<_>, _>>()?;
    let mut took = [const { Vec::new() }; 3];
    let mut computed = [const { Vec::new() }; 3];
    let threads = client.placement().all.len() as u64;
    let (pause_us, work_us) = MOMENT;
    for round in 0..rounds {
        for (at, set) in sets.iter_mut().enumerate() {
            let (interactive, others) = set.domains.split_first_mut().ok_or("there are four domains")?;
            let begun = underpass_os::clock::now_ns();
            DomainSet::order(others, |_| DomainOrder::Compute(threads))?;
            let order = DomainOrder::Wake { times, pause_us, work_us };
            took[at].extend(interactive.order::<Vec<f64>>(&order)?);
            let done = DomainSet::order(others, |_| DomainOrder::Rest)?;
            let ns = underpass_os::clock::now_ns() - begun;
            computed[at].push(done.into_iter().flatten().sum::<f64>() / ns as f64);
        }
        client.progress((round + 1) as f64 / rounds as f64);
    }
    let [with, without, kernel] = took.map(Summary::of);
    let ratios = computed[0].iter().zip(&computed[1]).map(|(with, without)| with / without);
    let throughput = Summary::of(ratios).median();
    let figures = Figures::one(with.p99(), "its 99th percentile without a server", without.p99());
    let figures = Figures { p99_ns: with.p99(), samples: with.len(), rounds, ..figures };
    let p99_is_met = figures.ratio <= P99;
    let figures = figures
        .with("median_ns", with.median())
        .with("without_median_ns", without.median())
        .with("kernel_p99_ns", kernel.p99())
        .with("throughput_ratio", throughput)
        .judged("bar", P99, p99_is_met)
        .judged("throughput_bar", THROUGHPUT, throughput >= THROUGHPUT);
    client.report("interactive", figures)
}
