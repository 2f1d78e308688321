//! Work appears in a domain while another one fills all CPUs.

use super::domain::DomainOrder;
use super::parties::{DomainSet, Setting};
use crate::processes::client::ScenarioClient;
use crate::raw::ping::ReplyKind;
use crate::{BenchError, Figures, Summary};
use underpass_os::cpu;

/// The bar for the median, in wake-ups across CPUs.
const MEDIAN: f64 = 3.0;
/// The bar for the 99th percentile, in ns.
const P99: f64 = 1e6;
/// Rounds, and wake-ups in each.
const FULL: (usize, u64) = (20, 100);
const QUICK: (usize, u64) = (2, 10);

/// What one wake-up across CPUs costs, in ns.
fn wake_up_ns(client: &ScenarioClient) -> Result<f64, BenchError> {
    let place = client.placement();
    let far = place.far.ok_or_else(|| place.one_only())?;
    cpu::confine(&[place.near])?;
    let mut ping = client.ping("futex-cross-cpu", ReplyKind::Futex, far);
    let contest = client.contest(&mut [&mut ping], 0, 4);
    cpu::confine(&place.all)?;
    // There and back.
    Ok(contest?.measured[0].slices().median() / 2.0)
}

pub(super) fn measure(client: &ScenarioClient) -> Result<(), BenchError> {
    let wake_up = wake_up_ns(client)?;
    let (rounds, times) = if client.effort().few { QUICK } else { FULL };
    let settings = [Setting::With, Setting::Without, Setting::Kernel];
    let mut sets = settings
        .into_iter()
        .map(|setting| DomainSet::start(client, setting, 2, false))
        .collect::<Result<Vec<_>, _>>()?;
    let mut samples = [const { Vec::new() }; 3];
    let threads = client.placement().all.len() as u64;
    for round in 0..rounds {
        for (set, samples) in sets.iter_mut().zip(&mut samples) {
            let [filling, waking] = &mut set.domains[..] else { return Err("there are two domains".into()) };
            let _: Vec<f64> = filling.order(&DomainOrder::Compute(threads))?;
            let order = DomainOrder::Wake { times, pause_us: 7_000, work_us: 100 };
            samples.extend(waking.order::<Vec<f64>>(&order)?);
            let _: Vec<f64> = filling.order(&DomainOrder::Rest)?;
        }
        client.progress((round + 1) as f64 / rounds as f64);
    }
    let [with, without, kernel] = samples.map(Summary::of);
    let figures = Figures::one(with.median(), "a wake-up across CPUs", wake_up);
    let figures = Figures { p99_ns: with.p99(), samples: with.len(), ..figures };
    let median_is_met = figures.ratio <= MEDIAN;
    let figures = figures
        .with("without_ns", without.median())
        .with("without_p99_ns", without.p99())
        .with("kernel_ns", kernel.median())
        .with("kernel_p99_ns", kernel.p99())
        .judged("bar", MEDIAN, median_is_met)
        .judged("p99_bar_ns", P99, with.p99() <= P99);
    client.report("wake-up", figures)
}
