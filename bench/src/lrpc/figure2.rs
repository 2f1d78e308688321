//! `fig2/N`: the throughput of N clients, each on a processor of its own, which it donates to the
//! server for its calls (LRPC, Figure 2).
//!
//! The server has no other processors. If all calls share nothing, N clients make N times as many
//! calls as one.

use super::{APPEAR, LrpcCalls, LrpcCallsClient, NAME};
use crate::calls::{self, Calls};
use crate::measure::call_counters::CountedCalls;
use crate::measure::contest::Subject;
use crate::processes::client::ScenarioClient;
use crate::processes::helper::{Does, Helper, HelperTask, obey};
use crate::processes::role::ChildRole;
use crate::report::verdict::ClaimVerdict;
use crate::{BenchError, Figures};
use serde::{Deserialize, Serialize};

/// The paper's calls per second of one client, and the speedups for several numbers of clients.
const PAPER: (f64, [(usize, f64); 3]) = (6_300.0, [(1, 1.0), (4, 3.7), (5, 4.3)]);

/// This share of the paper's speedup is enough.
const NEARLY: f64 = 0.9;

macro_rules! scenario {
    ($clients:literal) => {
        Scenario {
            name: concat!("fig2/", $clients),
            cases: &[concat!("fig2/", $clients)],
            pinning: Pinning::Split { clients: $clients, servers: 0 },
            client: |client| figure2::client(client, concat!("fig2/", $clients), $clients),
            server: figure2::serve,
        }
    };
}
pub(super) use scenario;

pub(super) fn serve(role: &ChildRole) -> Result<(), BenchError> {
    underpass::processors::set(0);
    super::serve(role)
}

/// A client that makes as many calls as it is told to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Caller {}

impl Caller {
    pub(crate) fn perform(self) -> Result<(), BenchError> {
        let table = LrpcCallsClient::import_within(NAME, APPEAR)?;
        let probe = calls::bind()?;
        obey(|operations: u64| {
            let table = table.clone();
            let mut calls = Calls::new("client", 1, move || table.null()).counted(&probe);
            Ok((calls.batch(operations)?, calls.counts()))
        })
    }
}

/// That many clients at once.
struct Together {
    name: String,
    clients: Vec<Helper>,
    /// The counts of each client and of the server. The server serves the others meanwhile, so only
    /// the client's part is its own.
    counts: CountedCalls,
}

impl Together {
    /// Starts a client on each of `cpus`.
    fn start(name: &str, cpus: &[usize]) -> Result<Self, BenchError> {
        let start =
            |&cpu: &usize| Helper::start(&HelperTask { cpus: vec![cpu], does: Does::Call(Caller {}) });
        Ok(Self {
            name: name.into(),
            clients: cpus.iter().map(start).collect::<Result<_, _>>()?,
            counts: CountedCalls::default(),
        })
    }
}

impl Subject for Together {
    fn name(&self) -> &str {
        &self.name
    }

    /// Each client makes its share, and warms up by itself. The ns are those of the slowest client.
    /// So `operations` are all that the clients did in that time.
    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        let share = operations.div_ceil(self.clients.len() as u64);
        self.clients.iter_mut().try_for_each(|client| client.begin(&share))?;
        let mut slowest = 0;
        for client in &mut self.clients {
            let (ns, counts): (u64, CountedCalls) = client.heard()?;
            slowest = slowest.max(ns);
            self.counts.merge(&counts);
        }
        Ok(slowest)
    }

    fn single(&mut self, _: u64, _: &mut Vec<f64>) -> Result<(), BenchError> {
        Ok(())
    }
}

pub(super) fn client(client: &ScenarioClient, case: &str, clients: usize) -> Result<(), BenchError> {
    let cpus = &client.placement().order[..clients];
    let (mut one, mut all) = (Together::start("one client", &cpus[..1])?, Together::start("clients", cpus)?);
    let contest = client.contest(&mut [&mut one, &mut all], 0, 1)?;
    let figures = Figures::of(&contest, 1, 0);
    let (rate, speedup) = ((1e9 / figures.ns).round() as u64, contest.ratios(0, 1).median());
    let figures =
        all.counts.tell(figures).with("clients", clients).with("calls_per_s", rate).with("speedup", speedup);
    let paper = PAPER.1.iter().find(|(n, _)| *n == clients);
    let Some(&(_, papers)) = paper else { return client.report(case, figures) };
    let figures = figures.with("paper_speedup", papers).with_detail("paper_calls_per_s", papers * PAPER.0);
    client.report(case, figures.with_verdict((clients > 1).then(|| scales(speedup, papers))))
}

/// The paper's claim about so many processors, which gave it a speedup of `papers`.
fn scales(speedup: f64, papers: f64) -> ClaimVerdict {
    ClaimVerdict {
        claim: "calls of different clients don't hold each other up",
        holds: speedup >= papers * NEARLY,
        because: format!("a speedup of {speedup:.2}, and {papers} in the paper"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speedup_like_the_papers_is_enough() {
        assert!(scales(3.7, 3.7).holds && scales(3.4, 3.7).holds);
        assert!(!scales(3.2, 3.7).holds);
    }
}
