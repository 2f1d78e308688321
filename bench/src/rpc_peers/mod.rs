//! `peers`: the same calls over Underpass and over what a user would take instead, each as a server
//! and a client in two processes.
//!
//! The peers are executables of their own (`peers/README.md`), and Underpass is one of them, so all
//! are measured by the same code. In a round each peer has a turn in each placement.

mod crash;
mod find;
mod method;
mod pair;
mod plan;
mod side_by_side;
mod tally;
mod turn;

pub use plan::{PeersPace, PeersScope};

use crate::processes::scratch::Scratch;
use crate::run::RunObserver;
use crate::{BenchError, Figures, Placement, Row, RowOrigin};
use crash::CallerFate;
use find::{OURS, PeerWay};
use plan::Times;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tally::{Series, StandingFigures};

/// What `underpass-bench peers` is asked for.
#[derive(Clone, Debug)]
pub struct PeersOptions {
    /// The peers to measure beside ours, by name; all if it is empty.
    pub only: Vec<String>,
    /// How long to measure.
    pub pace: PeersPace,
    /// How much to measure.
    pub scope: PeersScope,
    /// The directory of the peers, instead of `$UNDERPASS_PEERS` or `peers/target/release`.
    pub peers: Option<PathBuf>,
}

/// The results of all peers.
#[derive(Clone, Debug)]
pub struct PeersReport {
    /// The commit, the begin of the run, and the machine.
    pub origin: RowOrigin,
    /// How they came about, as one JSON object on a line.
    pub method: String,
    /// Latency, processor time and crashes side by side: a table for people.
    pub side_by_side: String,
    /// A row for each peer, placement and load, and for each peer's other figures.
    pub rows: Vec<Row>,
}

/// Measures all peers by turns, round after round.
///
/// # Errors
/// If the peers were not built, or `only` names none of them. A peer that fails is reported, and
/// the others are measured.
pub fn peers(options: &PeersOptions, observer: &mut dyn RunObserver) -> Result<PeersReport, BenchError> {
    let ways = find::chosen(find::all(options.peers.as_deref())?, &options.only)?;
    let times = options.pace.times();
    let mut run = PeersRun {
        origin: RowOrigin::of_this_run(crate::built_version()),
        tallies: ways.iter().map(|_| Tally::default()).collect(),
        ways,
        scope: options.scope,
        placement: Placement::choose()?,
        scratch: Scratch::new()?,
        times,
        begun: Instant::now(),
        turns: 0,
    };
    if options.scope == PeersScope::Whole {
        run.crashes(observer)?;
    }
    let rounds = run.rounds(observer)?;
    Ok(run.report(rounds))
}

/// What is known of a peer.
#[derive(Default)]
struct Tally {
    /// By placement and load.
    series: HashMap<(&'static str, &'static str, u64), Series>,
    standing: StandingFigures,
    killed: Vec<CallerFate>,
    stopped: Vec<CallerFate>,
    /// Why a turn failed.
    failure: Option<String>,
}

struct PeersRun {
    origin: RowOrigin,
    ways: Vec<PeerWay>,
    tallies: Vec<Tally>,
    scope: PeersScope,
    placement: Placement,
    scratch: Scratch,
    times: Times,
    begun: Instant,
    turns: usize,
}

impl PeersRun {
    /// An empty directory for the next turn.
    fn directory(&mut self) -> Result<PathBuf, BenchError> {
        self.turns += 1;
        let path = self.scratch.path().join(format!("turn-{}", self.turns));
        std::fs::create_dir(&path)?;
        Ok(path)
    }

    /// Kills and stops the servers of all peers.
    fn crashes(&mut self, observer: &mut dyn RunObserver) -> Result<(), BenchError> {
        for at in 0..self.ways.len() {
            let way = self.ways[at].clone();
            observer.progress(&format!("crashes: {}", way.name), self.share(0, 0.0));
            for _ in 0..self.times.kills {
                let directory = self.directory()?;
                match crash::killed(&way, &directory, &self.placement, &self.times) {
                    Ok(fate) => self.tallies[at].killed.push(fate),
                    Err(error) => self.failed(at, &error, observer),
                }
            }
            let directory = self.directory()?;
            match crash::stopped(&way, &directory, &self.placement, &self.times) {
                Ok(fate) => self.tallies[at].stopped.push(fate),
                Err(error) => self.failed(at, &error, observer),
            }
        }
        Ok(())
    }

    /// Measures round after round, and returns how many there were.
    fn rounds(&mut self, observer: &mut dyn RunObserver) -> Result<usize, BenchError> {
        let mut longest = Duration::ZERO;
        let most = self.scope.rounds(&self.times);
        for round in 0..most {
            let begun = Instant::now();
            if round > 0 && self.begun.elapsed() + longest > self.times.budget {
                return Ok(round);
            }
            self.round(round, observer)?;
            longest = longest.max(begun.elapsed());
        }
        Ok(most)
    }

    fn round(&mut self, round: usize, observer: &mut dyn RunObserver) -> Result<(), BenchError> {
        let placements = self.scope.placements();
        let all = (self.ways.len() * placements.len()) as f64;
        for (number, &(place, pinning)) in placements.iter().enumerate() {
            if let Err(reason) = self.placement.sides(pinning) {
                if round == 0 {
                    observer.note(&format!("{place}: {reason}"));
                }
                continue;
            }
            for at in 0..self.ways.len() {
                let share = (number * self.ways.len() + at) as f64 / all;
                let way = self.ways[at].clone();
                let what = format!("round {}, {place}: {}", round + 1, way.name);
                observer.progress(&what, self.share(round, share));
                let directory = self.directory()?;
                match turn::take(&way, &directory, (&self.placement, pinning), &self.times, self.scope) {
                    Ok(turn) => self.tallies[at].add(round, place, &turn),
                    Err(error) => self.failed(at, &error, observer),
                }
                // It is of no use any more. If it stays, it is removed with the others.
                let _ = std::fs::remove_dir_all(directory);
            }
        }
        Ok(())
    }

    /// The part of the whole run that is over.
    fn share(&self, round: usize, of_round: f64) -> f64 {
        let by_rounds = (round as f64 + of_round) / self.scope.rounds(&self.times) as f64;
        let by_time = self.begun.elapsed().as_secs_f64() / self.times.budget.as_secs_f64();
        by_rounds.max(by_time).min(1.0)
    }

    fn failed(&mut self, at: usize, error: &BenchError, observer: &mut dyn RunObserver) {
        // Once is enough to be told.
        if self.tallies[at].failure.replace(error.to_string()).is_none() {
            observer.note(&format!("{}: {error}", self.ways[at].name));
        }
    }

    fn report(self, rounds: usize) -> PeersReport {
        let method = method::describe(&self.origin, &self.placement, &self.times, &self.ways, rounds);
        let mut rows = Vec::new();
        for &(place, pinning) in self.scope.placements() {
            for load in self.scope.loads(pinning) {
                for (way, tally) in self.ways.iter().zip(&self.tallies) {
                    let key = (place, load.name, load.callers);
                    let beside = self.beside(way, key);
                    let missing = Series::default();
                    let series = tally.series.get(&key).unwrap_or(&missing);
                    let limit = self.tallies[beside].series.get(&key).unwrap_or(&missing);
                    rows.push(Row {
                        bench: "peers".into(),
                        case: format!("{place}/{}/{}", load.name, way.name),
                        pinning: self.placement.describe(pinning),
                        result: series.figures(load, limit, &self.ways[beside].name),
                    });
                }
            }
        }
        let whole = self.scope == PeersScope::Whole;
        for (way, tally) in self.ways.iter().zip(&self.tallies).filter(|_| whole) {
            rows.extend(tally.standing_rows(way, &self.tallies[0], &self.times));
        }
        let side_by_side = side_by_side::table(&self.ways, &self.tallies, &rows, &self.times);
        PeersReport { origin: self.origin, method: method.to_string(), side_by_side, rows }
    }

    /// The peer that `way` is compared with: ours. Ours is compared with a plain socket, if there
    /// is one.
    fn beside(&self, way: &PeerWay, key: (&'static str, &'static str, u64)) -> usize {
        let socket = self.ways.iter().position(|way| way.name == "kernel-stream");
        let measured = |at: &usize| self.tallies[*at].series.contains_key(&key);
        if way.ours { socket.filter(measured).unwrap_or(0) } else { 0 }
    }
}

impl Tally {
    fn add(&mut self, round: usize, place: &'static str, turn: &turn::PeerTurn) {
        for outcome in &turn.loads {
            let key = (place, outcome.load.name, outcome.load.callers);
            self.series.entry(key).or_default().add(round, outcome);
        }
        self.standing.add(turn);
    }

    /// Connecting, memory, idle time, and crashes.
    fn standing_rows(&self, way: &PeerWay, ours: &Tally, times: &Times) -> Vec<Row> {
        let row = |what: &str, result| Row {
            bench: "peers".into(),
            case: format!("{what}/{}", way.name),
            pinning: "both on any CPU".into(),
            result,
        };
        let absent = || self.failure.clone().unwrap_or_else(|| "it was not measured".into());
        let connect = self.standing.connect_ns();
        let connected = Figures::one(connect, OURS, ours.standing.connect_ns())
            .with("bytes_per_connection", self.standing.bytes_per_connection());
        let [client, server] = self.standing.idle_ns();
        let idle = Figures::one(client + server, "second", 1e9);
        let idle = idle.with("client_cpu_ns", client).with("server_cpu_ns", server);
        vec![
            row("connect", if connect.is_nan() { Err(absent()) } else { Ok(connected) }),
            row("idle", if (client + server).is_nan() { Err(absent()) } else { Ok(idle) }),
            row("killed", side_by_side::fates(&self.killed, times).ok_or_else(absent)),
            row("stopped", side_by_side::fates(&self.stopped, times).ok_or_else(absent)),
        ]
    }
}

#[cfg(test)]
mod tests;
