//! `threads`: the cost of thread management, compared with other thread packages and with kernel
//! threads (URPC, section 4.1; OThreads, section 4.1).
//!
//! One activation is confined to one CPU, and so are the competitors. Cases that need more
//! activations have a process of their own.

mod activations;
pub(crate) mod cases;
#[cfg(test)]
mod checks;
mod package;
mod remote;
mod timed;

use crate::catalogue::{Benchmark, Scenario};
use crate::measure::contest::{Contest, Subject};
use crate::processes::client::ScenarioClient;
use crate::processes::peers::{self, PeerProcess};
use crate::processes::role::idle;
use crate::{BenchError, Effort, Figures, Pinning};
use cases::{CASES, Case};
use std::time::Duration;
use timed::Timed;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "threads",
    about: "user-level threads on one CPU, beside other packages' and the kernel's: fork, join, yield, locks, blocking calls",
    scenarios: &[
        scenario(
            "one-activation",
            &["call", "fork", "fork-join", "yield", "lock", "ping-pong", "park", "blocking"],
            Pinning::Alone,
            one_activation,
        ),
        scenario("start", &["activation-start"], Pinning::Alone, activations::start),
        scenario("wake", &["activation-wake"], Pinning::Alone, activations::wake),
        scenario("stop", &["activation-stop"], Pinning::Alone, activations::stop),
        scenario("remote", &["spawn-remote"], Pinning::Both, remote::client),
    ],
};

const fn scenario(
    name: &'static str,
    cases: &'static [&'static str],
    pinning: Pinning,
    client: fn(&ScenarioClient) -> Result<(), BenchError>,
) -> Scenario {
    let server = match pinning {
        // A channel with nothing to receive, which idle activations poll.
        Pinning::Both => crate::calls::serve,
        _ => idle,
    };
    Scenario { name, cases, pinning, client, server }
}

/// Operations of ours in one sample. Reading the clock costs as much as a few of them.
const GROUP: u64 = 100;

/// A peer takes an order and answers by lines. A slice must be long relative to what that does to
/// the caches.
const SLICE: Duration = Duration::from_millis(6);

fn effort(client: &ScenarioClient) -> Effort {
    let effort = client.effort();
    if effort.few { effort } else { Effort { slice: SLICE, ..effort } }
}

fn one_activation(client: &ScenarioClient) -> Result<(), BenchError> {
    underpass::processors::set(1);
    let mut peers = running_peers(client)?;
    for peer in &peers {
        client.note(&format!("beside {} {}", peer.name(), peer.version()))?;
    }
    let cases: Vec<_> = CASES.iter().filter(|case| client.wants(case.name)).collect();
    for (part, case) in cases.iter().enumerate() {
        let mut ours = Timed::ours(case.ours, GROUP);
        let mut kernel = Timed::kernel(case.kernel.0, case.kernel.1);
        let mut others: Vec<_> = peers.iter_mut().filter_map(|peer| peer.on(case.peers)).collect();
        let mut subjects: Vec<&mut dyn Subject> = vec![&mut ours, &mut kernel];
        subjects.extend(others.iter_mut().map(|peer| peer as &mut dyn Subject));
        let mut progress = |share| client.progress((part as f64 + share) / cases.len() as f64);
        let contest = Contest::hold(&mut subjects, effort(client), &mut progress)?;
        client.report(case.name, figures(case, &contest))?;
    }
    Ok(())
}

/// The peers that can be started.
fn running_peers(client: &ScenarioClient) -> Result<Vec<PeerProcess>, BenchError> {
    let Some(directory) = client.peers() else {
        client.note(peers::HINT)?;
        return Ok(Vec::new());
    };
    let mut running = Vec::new();
    for peer in peers::start(directory)? {
        match peer {
            Ok(peer) => running.push(peer),
            Err(error) => client.note(&error.to_string())?,
        }
    }
    Ok(running)
}

/// The numbers of the subjects in a contest. The peers come after them.
const OURS: usize = 0;
const KERNEL: usize = 1;
const PEERS: usize = 2;

/// Ours compared with the best of the others.
fn figures(case: &Case, contest: &Contest) -> Figures {
    let ns = |subject: usize| contest.measured[subject].slices().median();
    let best = |from: usize| (from..contest.measured.len()).min_by(|&a, &b| ns(a).total_cmp(&ns(b)));
    let peer = best(PEERS);
    let limit = match peer {
        Some(peer) if case.yardstick => peer,
        _ => best(KERNEL).unwrap_or(KERNEL),
    };
    let mut figures = Figures::of(contest, OURS, limit);
    for other in &contest.measured[KERNEL..] {
        figures = figures.with(&format!("{}_ns", other.name), other.slices().median());
    }
    if let Some(peer) = peer {
        figures = figures.with("peer", contest.measured[peer].name.as_str()).with("peer_ns", ns(peer));
        if let Some(bar) = case.bar {
            let met = figures.ratio <= bar;
            figures = figures.judged("bar", bar, met);
        }
    }
    if let Some(bar) = case.bar_ns {
        let met = figures.ns <= bar;
        figures = figures.judged("bar_ns", bar, met);
    }
    paper(figures, case.paper_us)
}

/// Adds what the papers measured, in µs: user-level threads and kernel threads.
fn paper(figures: Figures, us: (Option<f64>, Option<f64>)) -> Figures {
    let figures = us.0.map(|us| us * 1e3).into_iter().fold(figures, |f, ns| f.with("paper_ns", ns));
    us.1.map(|us| us * 1e3).into_iter().fold(figures, |f, ns| f.with("paper_kernel_ns", ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Summary;
    use crate::measure::contest::Measured;

    fn contest(costs: &[(&str, f64)]) -> Contest {
        let measured = costs.iter().map(|&(name, ns)| Measured {
            name: name.into(),
            rounds: vec![ns; 3],
            singles: Summary::default(),
        });
        Contest { measured: measured.collect() }
    }

    fn case(name: &str) -> &'static Case {
        CASES.iter().find(|case| case.name == name).unwrap()
    }

    #[test]
    fn the_best_peer_is_the_limit() {
        let measured = contest(&[("ours", 10.0), ("std", 900.0), ("a", 40.0), ("b", 30.0)]);
        let figures = figures(case("yield"), &measured);
        assert_eq!((figures.limit.as_str(), figures.limit_ns, figures.ratio), ("b", 30.0, 1.0 / 3.0));
        assert_eq!((&figures.more["peer"], &figures.more["peer_ns"]), (&"b".into(), &30.0.into()));
        assert_eq!((&figures.more["bar_is"], &figures.more["a_ns"]), (&"met".into(), &40.0.into()));
        assert_eq!(figures.more["paper_kernel_ns"], 57e3);
    }

    #[test]
    fn a_kernel_lock_may_be_the_best_one() {
        let measured = contest(&[("ours", 5.0), ("std", 4.0), ("a", 8.0)]);
        let figures = figures(case("lock"), &measured);
        assert_eq!((figures.limit.as_str(), &figures.more["bar_is"]), ("std", &"missed".into()));
        assert_eq!(figures.more["peer"], "a");
    }

    #[test]
    fn a_yardstick_counts_only_where_no_peer_is() {
        let alone = figures(case("blocking"), &contest(&[("ours", 9.0), ("syscall", 200.0)]));
        assert_eq!((alone.limit.as_str(), &alone.more["bar_ns_is"]), ("syscall", &"met".into()));
        assert!(!alone.more.contains_key("bar"));
        let beside = figures(case("blocking"), &contest(&[("ours", 90.0), ("syscall", 20.0), ("go", 50.0)]));
        assert_eq!((beside.limit.as_str(), &beside.more["bar_is"]), ("go", &"missed".into()));
    }

    #[test]
    fn every_case_has_its_place_in_the_catalogue() {
        let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
        assert_eq!(BENCHMARK.scenarios[0].cases, names);
    }
}
