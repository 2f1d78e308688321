//! Puts the rounds together: quantiles of all rounds' calls, medians of the rounds, and ratios
//! within a round.

use crate::rpc_peers::plan::WorkLoad;
use crate::rpc_peers::turn::{LoadOutcome, PeerTurn};
use crate::{Figures, Summary};
use std::collections::BTreeMap;

/// Nanoseconds, and how many calls took as long.
#[derive(Clone, Debug, Default)]
struct Latencies(BTreeMap<u64, u64>);

impl Latencies {
    fn add(&mut self, counts: &[(u64, u64)]) {
        for &(ns, count) in counts {
            *self.0.entry(ns).or_default() += count;
        }
    }

    fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// The nearest-rank quantile.
    fn quantile(&self, share: f64) -> f64 {
        let rank = ((share * self.count() as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.0.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        found.map_or(f64::NAN, |(ns, _)| *ns as f64)
    }
}

/// A load of one peer in one placement, round by round.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    latencies: Latencies,
    /// A round's figure: the median call of one caller, or the time divided by several callers'
    /// calls.
    rounds: BTreeMap<usize, f64>,
    calls: u64,
    span_ns: u64,
    made: u64,
    client_cpu_ns: u64,
    server_cpu_ns: u64,
    /// Why a round has no figure.
    failure: Option<String>,
}

impl Series {
    pub(super) fn add(&mut self, round: usize, outcome: &LoadOutcome) {
        let (done, server_cpu_ns) = match &outcome.result {
            Ok(both) => both,
            Err(why) => {
                self.failure = Some(why.clone());
                return;
            }
        };
        let mut own = Latencies::default();
        own.add(&done.latencies);
        self.latencies.add(&done.latencies);
        let calls = own.count();
        let figure = match outcome.load.callers {
            1 => own.quantile(0.5),
            _ => done.span_ns as f64 / calls as f64,
        };
        self.rounds.insert(round, figure);
        self.calls += calls;
        self.span_ns += done.span_ns;
        self.made += done.made;
        self.client_cpu_ns += done.cpu_ns;
        self.server_cpu_ns += server_cpu_ns;
    }

    /// The figures beside those of `limit`, which is called `name`, or why there are none.
    pub(super) fn figures(&self, load: WorkLoad, limit: &Series, name: &str) -> Result<Figures, String> {
        if self.rounds.is_empty() {
            return Err(self.failure.clone().unwrap_or_else(|| "it was not measured".into()));
        }
        let own = Summary::of(self.rounds.values().copied());
        let ratios = self.rounds.iter().filter_map(|(round, ns)| Some(ns / limit.rounds.get(round)?));
        let ratios = Summary::of(ratios);
        let quantile = |share| self.latencies.quantile(share);
        let figures = Figures {
            min_ns: own.min(),
            max_ns: own.max(),
            p99_ns: quantile(0.99),
            ratio: ratios.median(),
            ratio_p10: ratios.quantile(0.1),
            ratio_p90: ratios.quantile(0.9),
            rounds: own.len(),
            samples: self.calls as usize,
            ..Figures::one(own.median(), name, Summary::of(limit.rounds.values().copied()).median())
        };
        let per_million = |ns: u64| ns as f64 / self.made as f64 / 1e3;
        let (client, server) = (per_million(self.client_cpu_ns), per_million(self.server_cpu_ns));
        let figures = figures
            .with("T", load.callers)
            .with("bytes", load.bytes)
            .with("p50_ns", quantile(0.5))
            .with("p999_ns", quantile(0.999))
            .with("calls_per_s", (self.calls as f64 * 1e9 / self.span_ns as f64).round() as u64)
            .with("cpu_s_per_million", client + server)
            .with_detail("client_cpu_s_per_million", client)
            .with_detail("server_cpu_s_per_million", server);
        Ok(match &self.failure {
            None => figures,
            Some(why) => figures.with_detail("failed_once", why.as_str()),
        })
    }
}

/// What does not depend on the load: in each round once.
#[derive(Clone, Debug, Default)]
pub(super) struct StandingFigures {
    connect_ns: Vec<f64>,
    idle_ns: Vec<[f64; 2]>,
    bytes_per_connection: Vec<f64>,
}

impl StandingFigures {
    pub(super) fn add(&mut self, turn: &PeerTurn) {
        self.connect_ns.extend(turn.connect_ns.map(|ns| ns as f64));
        self.idle_ns.extend(turn.idle_ns);
        self.bytes_per_connection.extend(turn.bytes_per_connection);
    }

    /// The median time to connect.
    pub(super) fn connect_ns(&self) -> f64 {
        Summary::of(self.connect_ns.iter().copied()).median()
    }

    /// The median processor time of client and server in a second without calls.
    pub(super) fn idle_ns(&self) -> [f64; 2] {
        [0, 1].map(|side| Summary::of(self.idle_ns.iter().map(|both| both[side])).median())
    }

    /// The median memory of a further connection.
    pub(super) fn bytes_per_connection(&self) -> f64 {
        Summary::of(self.bytes_per_connection.iter().copied()).median()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc_peers::pair::CallsDone;
    use crate::rpc_peers::plan::LOADS;

    fn outcome(load: WorkLoad, latencies: &[(u64, u64)]) -> LoadOutcome {
        let calls = latencies.iter().map(|(_, count)| count).sum();
        let done = CallsDone {
            made: calls,
            cpu_ns: 500 * calls,
            span_ns: 1_000 * calls,
            latencies: latencies.into(),
        };
        LoadOutcome { load, result: Ok((done, 1_500 * calls)) }
    }

    #[test]
    fn quantiles_are_of_all_rounds_and_ratios_of_each() {
        let one = LOADS[0];
        let (mut ours, mut other) = (Series::default(), Series::default());
        ours.add(0, &outcome(one, &[(100, 10)]));
        ours.add(1, &outcome(one, &[(300, 10)]));
        other.add(0, &outcome(one, &[(200, 995), (5_000, 5)]));
        other.add(1, &outcome(one, &[(1_200, 1_000)]));
        let figures = other.figures(one, &ours, "underpass").unwrap();
        assert_eq!((figures.ns, figures.limit_ns, figures.rounds), (700.0, 200.0, 2));
        assert_eq!((figures.ratio, figures.ratio_p10, figures.ratio_p90), (3.0, 2.0, 4.0));
        assert_eq!((figures.p99_ns, &figures.more["p999_ns"]), (1_200.0, &5_000.0.into()));
        assert_eq!(figures.more["cpu_s_per_million"], 2.0);
        assert_eq!(figures.more["calls_per_s"], 1_000_000);
    }

    #[test]
    fn several_callers_are_judged_by_their_calls_in_a_time() {
        let many = LOADS[4];
        let mut series = Series::default();
        series.add(0, &outcome(many, &[(32_000, 64)]));
        let figures = series.figures(many, &series, "underpass").unwrap();
        assert_eq!((figures.ns, &figures.more["p50_ns"]), (1_000.0, &32_000.0.into()));
    }

    #[test]
    fn what_fails_always_has_the_reason_for_a_figure() {
        let mut series = Series::default();
        series.add(0, &LoadOutcome { load: LOADS[0], result: Err("too many callers".into()) });
        assert_eq!(series.figures(LOADS[0], &series, "underpass").unwrap_err(), "too many callers");
    }
}
