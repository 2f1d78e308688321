//! All results of the demo, as they are printed for people and for machines.

use super::event::{DemoDomain, DemoProcedure};
use super::messages::Transport;
use super::numbers::{median, per, percentile};
use super::round::{Happened, Round};
use super::text::Change;
use super::timeline::Timeline;
use serde::Serialize;
use std::collections::BTreeMap;
use underpass_figures::Machine;

/// The demo's result.
#[derive(Clone, Debug, Serialize)]
pub struct DemoOutcome {
    /// The machine.
    pub machine: Machine,
    /// The edited text.
    pub text: Text,
    /// The processes of the round that is shown in `beginning` and `middle`.
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
    /// The screen at the end of each round. It is the same in all rounds.
    pub screen: Vec<String>,
}

/// The edited text.
#[derive(Clone, Debug, Serialize)]
pub struct Text {
    /// The user's file. `None` if the demo made the text.
    pub file: Option<String>,
    /// Its length in bytes.
    pub bytes: u64,
    /// Bytes in a block.
    pub block: u32,
    /// The replacement.
    pub change: Change,
    /// The number of places.
    pub places: u64,
    /// Bytes of the edited text, which is the same in each round.
    pub edited_bytes: u64,
}

/// The calls of one interface over one transport, all rounds together.
#[derive(Clone, Debug, Serialize)]
pub struct InterfaceResult {
    /// The server.
    pub server: DemoDomain,
    /// The transport of the calls.
    pub transport: Transport,
    /// The number of calls.
    pub calls: u64,
    /// The median, in ns.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
    /// Kernel entries per call, of both sides.
    pub kernel_entries_per_call: f64,
    /// Wake-ups per call that either side sent the other. Unknown over sockets, where the kernel
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
    /// The transport of the calls.
    pub transport: Transport,
    /// The duration of each round.
    pub rounds_ns: Vec<u64>,
    /// The median duration.
    pub ns: u64,
    /// Kernel entries of all three domains per call.
    pub kernel_entries_per_call: f64,
    /// Sleeps of all kernel threads of the three domains per call, by the kernel's count.
    pub sleeps_per_call: f64,
    /// How often a processor moved from one domain to another in a round (median).
    pub moves: u64,
}

/// The time with sockets as a multiple of the time with Underpass, in the same run.
#[derive(Clone, Debug, Serialize)]
pub struct Ratios {
    /// For the median calls, by server.
    pub interfaces: BTreeMap<DemoDomain, f64>,
    /// For the whole job.
    pub job: f64,
}

/// The round in which the file cache manager is killed.
#[derive(Clone, Debug, Serialize)]
pub struct Disaster {
    /// When the editor began, in ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// When it was done.
    pub to: u64,
    /// The events, in order.
    pub steps: Vec<Happened>,
    /// Whether the edited text was right, byte for byte. If it is not, the demo fails instead.
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
