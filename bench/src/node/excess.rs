//! How often more activations run than there are processors, as an observer outside sees it.

use super::domain::DomainOrder;
use super::parties::{DomainSet, Setting};
use crate::processes::client::ScenarioClient;
use crate::processes::helper::Helper;
use crate::{BenchError, Figures};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use underpass_os::process_table::threads_of;

/// The bar: the share of samples in which an excess lasts.
const BAR: f64 = 0.005;
/// How long the random load lasts.
const FULL: Duration = Duration::from_secs(60);
const QUICK: Duration = Duration::from_secs(2);
/// The time between two samples.
const SAMPLE: Duration = Duration::from_millis(1);

/// Activations that are able to run, by the kernel's word.
fn running(pids: &[u32]) -> usize {
    let is_running = |pid: u32, thread: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat"));
        stat.is_ok_and(|stat| stat.contains("(activation-") && stat.contains(") R "))
    };
    let of = |&pid: &u32| threads_of(pid).into_iter().filter(|&thread| is_running(pid, thread)).count();
    pids.iter().map(of).sum()
}

/// What an observer has seen.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    samples: u64,
    /// Samples with more than the processors.
    more: u64,
    /// Samples with more, as the sample before.
    lasting: u64,
}

impl Seen {
    fn share(self) -> f64 {
        self.lasting as f64 / self.samples.max(1) as f64
    }
}

fn observe(pids: &[u32], processors: usize, over: &AtomicBool) -> Seen {
    let (mut seen, mut before) = (Seen::default(), false);
    // Relaxed: the word only ends this.
    while !over.load(Ordering::Relaxed) {
        let next = Instant::now() + SAMPLE;
        let more = running(pids) > processors;
        seen.samples += 1;
        seen.more += u64::from(more);
        seen.lasting += u64::from(more && before);
        before = more;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    seen
}

/// Each domain gets more or less to do at random moments.
fn load(client: &ScenarioClient, domains: &mut [Helper], lasts: Duration) -> Result<(), BenchError> {
    let begun = Instant::now();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    while begun.elapsed() < lasts {
        let (domain, threads, pause) = (draw(domains.len() as u64), draw(4), draw(40));
        let order = if threads == 0 { DomainOrder::Rest } else { DomainOrder::Compute(threads) };
        let _: Vec<f64> = domains[domain as usize].order(&order)?;
        std::thread::sleep(Duration::from_millis(pause));
        client.progress(begun.elapsed().as_secs_f64() / lasts.as_secs_f64() / 2.0);
    }
    DomainSet::order(domains, |_| DomainOrder::Rest)?;
    Ok(())
}

fn excess(client: &ScenarioClient, setting: Setting, lasts: Duration) -> Result<Seen, BenchError> {
    let mut set = DomainSet::start(client, setting, 4, false)?;
    let pids: Vec<u32> = set.domains.iter().map(Helper::pid).collect();
    let processors = client.placement().all.len();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let observer = scope.spawn(|| observe(&pids, processors, &over));
        let loaded = load(client, &mut set.domains, lasts);
        over.store(true, Ordering::Relaxed);
        let seen = observer.join().map_err(|_| "the observer panicked")?;
        loaded.map(|()| seen)
    })
}

pub(super) fn measure(client: &ScenarioClient) -> Result<(), BenchError> {
    let lasts = if client.effort().few { QUICK } else { FULL };
    // Without a server it only says what there is to avoid.
    let without = excess(client, Setting::Without, lasts / 4)?;
    let with = excess(client, Setting::With, lasts)?;
    let ns = SAMPLE.as_nanos() as f64;
    let figures = Figures::one(with.share() * ns, "a sample", ns);
    let is_met = with.share() <= BAR;
    let figures = figures
        .with("lasting_share", with.share())
        .with("without_share", without.share())
        .with("observed", with.samples)
        .with_detail("more", with.more)
        .judged("bar", BAR, is_met);
    client.report("excess", figures)
}
