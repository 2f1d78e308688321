//! How the figures came about, for the head of the report.

use crate::rpc_peers::find::PeerWay;
use crate::rpc_peers::plan::{PLACEMENTS, Times};
use crate::{MachineSettings, Placement, RowOrigin};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The method, as one JSON object: a row without figures.
pub(super) fn describe(
    origin: &RowOrigin,
    placement: &Placement,
    times: &Times,
    ways: &[PeerWay],
    rounds: usize,
) -> Value {
    let pinning: BTreeMap<_, _> =
        PLACEMENTS.iter().map(|&(name, pinning)| (name, placement.describe(pinning))).collect();
    let peers: Vec<_> = ways
        .iter()
        .map(|way| json!({ "name": way.name, "version": way.version, "about": way.about }))
        .collect();
    let settings = MachineSettings::this();
    let (version, machine) = (&origin.version, &origin.machine);
    json!({
        "bench": "peers",
        "case": "method",
        "commit": version.commit,
        "tree": version.tree,
        "date": origin.date,
        "cpu": machine.cpu,
        "kernel": machine.kernel,
        "processors": machine.processors,
        "clock_ns": machine.clock_ns,
        "kernel_command_line": settings.kernel_command_line,
        "mitigations": settings.mitigations,
        "governor": settings.governor,
        "smt": settings.smt,
        "placements": pinning,
        "rounds": rounds,
        "slice_ms": times.slice.as_millis() as u64,
        "bound_ms": times.bound.as_millis() as u64,
        "kills": times.kills,
        "repetition": "in each round and placement each peer has one turn; its processes are started for that turn",
        "figures": "ns: T = 1: the median of the rounds' median calls, T = 32: of the rounds' time for each call; \
                    p50, p99, p999: of all calls of all rounds; ratio: the median of the ratios within a round, \
                    ratio_p10 and ratio_p90 their spread",
        "peers": peers,
    })
}
