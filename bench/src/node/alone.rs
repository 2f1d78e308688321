//! What a server costs where it has nothing to do.

use super::domain::DomainOrder;
use super::parties::{DomainSet, Setting};
use crate::measure::contest::Subject;
use crate::processes::client::ScenarioClient;
use crate::processes::helper::Helper;
use crate::{BenchError, Figures};
use std::time::{Duration, Instant};
use underpass_os::processor_time;

/// The bar for a domain alone, relative to one without a server.
const BAR: f64 = 1.02;
/// The bar for an idle server: the processor time that counts as 0.00 s.
const IDLE: f64 = 5e6;

/// The order for so many operations.
type OrderOf = fn(u64) -> DomainOrder;

/// The orders of one domain, as operations.
struct Ordered<'a> {
    name: &'static str,
    domain: &'a mut Helper,
    order: OrderOf,
}

impl Subject for Ordered<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        let took: Vec<f64> = self.domain.order(&(self.order)(operations))?;
        Ok(took.first().copied().ok_or("no answer")? as u64)
    }

    /// The domain times a batch as a whole.
    fn single(&mut self, _: u64, _: &mut Vec<f64>) -> Result<(), BenchError> {
        Ok(())
    }
}

pub(super) fn measure(client: &ScenarioClient) -> Result<(), BenchError> {
    let mut with = DomainSet::start(client, Setting::With, 1, false)?;
    let mut without = DomainSet::start(client, Setting::Without, 1, false)?;
    let _callees = [with.add_callee(client)?, without.add_callee(client)?];
    let cases: [(&str, OrderOf); 2] = [("alone/null", DomainOrder::Null), ("alone/fork", DomainOrder::Fork)];
    for (part, (case, order)) in cases.into_iter().enumerate() {
        if !client.wants(case) {
            continue;
        }
        let mut limit = Ordered { name: "the same without a server", domain: &mut without.domains[0], order };
        let mut subject = Ordered { name: "with a server", domain: &mut with.domains[0], order };
        let contest = client.contest(&mut [&mut limit, &mut subject], part, cases.len())?;
        let figures = Figures::of(&contest, 1, 0);
        let is_met = figures.ratio <= BAR;
        client.report(case, figures.judged("bar", BAR, is_met))?;
    }
    Ok(())
}

/// The processor time of a process so far, in ns.
fn processor_ns(pid: u32) -> Result<u64, BenchError> {
    Ok(processor_time::of_threads(pid)?.iter().map(|thread| thread.ran).sum())
}

pub(super) fn idle_server(client: &ScenarioClient) -> Result<(), BenchError> {
    let lasts = Duration::from_secs(if client.effort().few { 1 } else { 10 });
    let set = DomainSet::start(client, Setting::With, 2, true)?;
    let server = set.server().ok_or("there is a server")?;
    // The domains' monitors tick a few times before they sleep.
    std::thread::sleep(Duration::from_millis(200));
    let (before, begun) = (processor_ns(server)?, Instant::now());
    while begun.elapsed() < lasts {
        std::thread::sleep(Duration::from_millis(100));
        client.progress(begun.elapsed().as_secs_f64() / lasts.as_secs_f64());
    }
    let used = (processor_ns(server)? - before) as f64;
    let figures = Figures::one(used, "what counts as 0.00 s", IDLE);
    client.report("idle", figures.with("seconds", lasts.as_secs()).judged("bar", 1.0, used <= IDLE))
}
