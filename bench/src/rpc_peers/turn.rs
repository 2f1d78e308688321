//! A peer's turn: its two processes are started anew, measured, and ended. So no peer runs beside
//! another, and none has what an earlier turn has left in memory.

use crate::BenchError;
use crate::rpc_peers::find::PeerWay;
use crate::rpc_peers::pair::{CallsDone, PeerPair};
use crate::rpc_peers::plan::{PeersScope, Times, WorkLoad};
use crate::{Pinning, Placement};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Further connections that are made to see how much memory one takes.
const CONNECTIONS: u64 = 16;

/// How long after the last call a pair counts as idle.
const SETTLE: Duration = Duration::from_millis(50);

/// What one load has shown.
#[derive(Clone, Debug)]
pub(super) struct LoadOutcome {
    pub(super) load: WorkLoad,
    /// The client's report and the server's processor time, or why there is none.
    pub(super) result: Result<(CallsDone, u64), String>,
}

/// What a turn has shown.
#[derive(Clone, Debug, Default)]
pub(super) struct PeerTurn {
    pub(super) connect_ns: Option<u64>,
    pub(super) loads: Vec<LoadOutcome>,
    /// Processor time of both sides in a second without calls.
    pub(super) idle_ns: Option<[f64; 2]>,
    pub(super) bytes_per_connection: Option<f64>,
}

/// Measures `way` once.
///
/// # Errors
/// It cannot be started. A load that fails is among the outcomes.
pub(super) fn take(
    way: &PeerWay,
    directory: &Path,
    (placement, pinning): (&Placement, Pinning),
    times: &Times,
    scope: PeersScope,
) -> Result<PeerTurn, BenchError> {
    let (near, far) = placement.sides(pinning)?;
    let mut pair = PeerPair::start(way, directory, (&near, &far))?;
    let mut turn = PeerTurn { connect_ns: Some(pair.connect_ns), ..PeerTurn::default() };
    if pinning == Pinning::Floating {
        turn.bytes_per_connection = memory(&mut pair).ok();
    }
    for load in scope.loads(pinning) {
        let result = match load.callers <= way.callers {
            true => measure(&mut pair, load, times).map_err(|e| e.to_string()),
            false => Err("each of its callers polls, and so wants a CPU of its own".into()),
        };
        turn.loads.push(LoadOutcome { load, result });
    }
    if pinning == Pinning::Floating {
        turn.idle_ns = idle(&pair, times).ok();
    }
    Ok(turn)
}

fn measure(pair: &mut PeerPair, load: WorkLoad, times: &Times) -> Result<(CallsDone, u64), BenchError> {
    let before = pair.server_cpu_ns()?;
    let done = pair.load(&load.line(times))?;
    if done.latencies.is_empty() {
        return Err("the client has measured no call".into());
    }
    // A thread of the server that has ended meanwhile is not counted any more.
    Ok((done, pair.server_cpu_ns()?.saturating_sub(before)))
}

fn memory(pair: &mut PeerPair) -> Result<f64, BenchError> {
    let before = pair.memory_bytes()?;
    pair.connections(CONNECTIONS)?;
    Ok(pair.memory_bytes()?.saturating_sub(before) as f64 / CONNECTIONS as f64)
}

fn idle(pair: &PeerPair, times: &Times) -> Result<[f64; 2], BenchError> {
    thread::sleep(SETTLE);
    let (before, begun) = (pair.cpu_ns()?, Instant::now());
    thread::sleep(times.idle);
    let (after, passed) = (pair.cpu_ns()?, begun.elapsed().as_secs_f64());
    Ok([0, 1].map(|side| after[side].saturating_sub(before[side]) as f64 / passed))
}
