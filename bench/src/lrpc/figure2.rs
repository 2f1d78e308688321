//! `fig2/N`: the throughput of N clients, each on a processor of its own, which it donates to the
//! server for its calls (LRPC, Figure 2).
//!
//! The server has no other processors. If all calls share nothing, N clients make N times as many
//! calls as a client alone. That one has a server of its own, which has no other clients.

use crate::calls;
use crate::processes::client::ScenarioClient;
use crate::processes::client_crowd::ClientCrowd;
use crate::processes::helper::{Does, Helper, HelperTask};
use crate::processes::role::ChildRole;
use crate::report::verdict::ClaimVerdict;
use crate::{BenchError, Figures};

/// The paper's calls per second of one client, and the speedups for several numbers of clients.
const PAPER: (f64, [(usize, f64); 3]) = (6_300.0, [(1, 1.0), (4, 3.7), (5, 4.3)]);

/// This share of the paper's speedup is enough.
const NEARLY: f64 = 0.9;

/// The server of the client alone.
const ALONE: &str = "lrpc-alone";

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

pub(super) fn client(client: &ScenarioClient, case: &str, clients: usize) -> Result<(), BenchError> {
    let (cpus, window) = (&client.placement().order[..clients], client.effort().slice);
    let only = &cpus[..1];
    let _server = Helper::start(&HelperTask { cpus: only.to_vec(), does: Does::ServeDonated(ALONE.into()) })?;
    let mut one = ClientCrowd::start("a client alone", ALONE, only, window)?;
    let mut all = ClientCrowd::start("clients", calls::NAME, cpus, window)?;
    let contest = client.contest(&mut [&mut one, &mut all], 0, 1)?;
    let figures = Figures::of(&contest, 1, 0);
    let (rate, speedup) = ((1e9 / figures.ns).round() as u64, contest.ratios(0, 1).median());
    let figures = all.tell(figures).with("calls_per_s", rate).with("speedup_to_alone", speedup);
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
        assert!(scales(3.7, 3.7).holds && scales(3.34, 3.7).holds);
        assert!(!scales(3.32, 3.7).holds && !scales(1.0, 3.7).holds);
    }
}
