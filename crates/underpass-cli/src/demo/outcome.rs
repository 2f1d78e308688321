//! All that the demo found out, as it is printed for people and for machines.

use super::event::{DemoDomain, DemoProcedure};
use super::messages::Transport;
use super::numbers::{median, per, percentile};
use super::round::{Happened, Round};
use super::text::Change;
use super::timeline::Timeline;
use serde::Serialize;
use std::collections::BTreeMap;
use underpass_bench::Machine;

/// The demo's result.
#[derive(Clone, Debug, Serialize)]
pub struct DemoOutcome {
    /// Where it ran.
    pub machine: Machine,
    /// What was edited.
    pub text: Text,
    /// The processes of the round that `beginning` and `middle` show.
    pub pids: Vec<(DemoDomain, u32)>,
    /// The first calls of a round over Underpass.
    pub beginning: Timeline,
    /// Calls from the middle of the same round.
    pub middle: Timeline,
    /// Each interface over each transport.
    pub interfaces: Vec<InterfaceResult>,
    /// The whole job over each transport.
    pub jobs: Vec<Job>,
    /// How many times longer sockets take than Underpass.
    pub ratios: Ratios,
    /// The round in which the file cache manager is killed.
    pub disaster: Disaster,
    /// The screen at the end of each round, which is the same in all.
    pub screen: Vec<String>,
}

/// What was edited.
#[derive(Clone, Debug, Serialize)]
pub struct Text {
    /// The user's file; `None`: the demo made the text.
    pub file: Option<String>,
    /// Bytes of it.
    pub bytes: u64,
    /// Bytes in a block.
    pub block: u32,
    /// What was replaced.
    pub change: Change,
    /// In how many places.
    pub places: u64,
    /// Bytes of the edited text, which each round gave byte for byte.
    pub edited_bytes: u64,
}

/// The calls of one interface over one transport, all rounds together.
#[derive(Clone, Debug, Serialize)]
pub struct InterfaceResult {
    /// Who serves it.
    pub server: DemoDomain,
    /// How the calls travelled.
    pub transport: Transport,
    /// Calls made.
    pub calls: u64,
    /// Half of the calls took at most so many ns.
    pub p50_ns: u64,
    /// 99 of 100.
    pub p99_ns: u64,
    /// 999 of 1,000.
    pub p999_ns: u64,
    /// Kernel entries for a call, of both sides.
    pub kernel_entries_per_call: f64,
    /// Wake-ups that either side sent the other, for a call; unknown over sockets, where the kernel
    /// sends them.
    pub wakeups_per_call: Option<f64>,
    /// Bytes of arguments and results.
    pub bytes: u64,
    /// The median of each procedure, in ns.
    pub procedures_p50_ns: BTreeMap<DemoProcedure, u64>,
}

/// The whole job over one transport.
#[derive(Clone, Debug, Serialize)]
pub struct Job {
    /// How the calls travelled.
    pub transport: Transport,
    /// How long each round took.
    pub rounds_ns: Vec<u64>,
    /// The median of them.
    pub ns: u64,
    /// Kernel entries of all three domains for a call.
    pub kernel_entries_per_call: f64,
    /// Sleeps of all kernel threads of the three domains for a call, by the kernel's count.
    pub sleeps_per_call: f64,
    /// How often a processor was seen to move from one domain to another, in a round (median).
    pub moves: u64,
}

/// Sockets' time as a multiple of Underpass's, in the same run.
#[derive(Clone, Debug, Serialize)]
pub struct Ratios {
    /// Of the median calls, by server.
    pub interfaces: BTreeMap<DemoDomain, f64>,
    /// Of the whole job.
    pub job: f64,
}

/// The round in which the file cache manager is killed.
#[derive(Clone, Debug, Serialize)]
pub struct Disaster {
    /// When the editor began, in ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// When it was done.
    pub to: u64,
    /// What happened, in order.
    pub steps: Vec<Happened>,
    /// Whether the edited text was right, byte for byte; a demo where it isn't fails instead.
    pub verified: bool,
}

/// Sums up one interface over one transport.
pub fn line(rounds: &[&Round], server: DemoDomain, transport: Transport) -> InterfaceResult {
    let mut by_procedure: BTreeMap<DemoProcedure, Vec<u64>> = BTreeMap::new();
    let (mut entries, mut wakeups, mut bytes) = (0, 0, 0);
    for round in rounds {
        for event in round.edited.events.iter().filter(|event| event.procedure.server() == server) {
            by_procedure.entry(event.procedure).or_default().push(event.ns());
        }
        let binding = round.edited.bindings.get(&server).copied().unwrap_or_default();
        let served = round.served.get(&server).map(|served| served.domain).unwrap_or_default();
        entries += binding.kernel_entries + served.kernel_entries;
        wakeups += binding.wakeups + served.wakeups;
        bytes += binding.bytes_out + binding.bytes_in;
    }
    let mut all: Vec<u64> = by_procedure.values().flatten().copied().collect();
    all.sort_unstable();
    let calls = all.len() as u64;
    InterfaceResult {
        server,
        transport,
        calls,
        p50_ns: percentile(&all, 500),
        p99_ns: percentile(&all, 990),
        p999_ns: percentile(&all, 999),
        kernel_entries_per_call: per(entries, calls),
        wakeups_per_call: (transport != Transport::Sockets).then(|| per(wakeups, calls)),
        bytes,
        procedures_p50_ns: by_procedure.into_iter().map(|(name, ns)| (name, median(ns))).collect(),
    }
}

/// Sums up the whole job over one transport.
pub fn job(rounds: &[&Round], transport: Transport) -> Job {
    let (mut calls, mut entries, mut sleeps) = (0, 0, 0);
    for round in rounds {
        calls += round.edited.events.len() as u64;
        let servers = round.served.values();
        entries += round.edited.domain.kernel_entries;
        sleeps += round.edited.sleeps;
        for served in servers {
            entries += served.domain.kernel_entries;
            sleeps += served.sleeps;
        }
    }
    let rounds_ns: Vec<u64> = rounds.iter().map(|round| round.ns()).collect();
    Job {
        transport,
        ns: median(rounds_ns.iter().copied()),
        rounds_ns,
        kernel_entries_per_call: per(entries, calls),
        sleeps_per_call: per(sleeps, calls),
        moves: median(rounds.iter().map(|round| Timeline::of(round).moves.len() as u64)),
    }
}

/// Compares sockets with Underpass.
pub fn ratios(interfaces: &[InterfaceResult], jobs: &[Job]) -> Ratios {
    let p50 = |server, transport| {
        interfaces
            .iter()
            .find(|line| line.server == server && line.transport == transport)
            .map_or(0, |line| line.p50_ns)
    };
    let ns = |transport| jobs.iter().find(|job| job.transport == transport).map_or(0, |job| job.ns);
    let ratio = |server| per(p50(server, Transport::Sockets), p50(server, Transport::Underpass));
    Ratios {
        interfaces: DemoDomain::SERVERS.iter().map(|&server| (server, ratio(server))).collect(),
        job: per(ns(Transport::Sockets), ns(Transport::Underpass)),
    }
}
