//! What happens to a caller whose server is killed, or stopped.

use crate::BenchError;
use crate::Placement;
use crate::rpc_peers::find::PeerWay;
use crate::rpc_peers::pair::{ClientLine, PATIENCE, PeerPair};
use crate::rpc_peers::plan::Times;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long calls are made before something happens to the server.
const BEFORE: Duration = Duration::from_millis(50);

/// What a caller experienced.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CallerFate {
    /// Its call failed, so long after it happened.
    Error { after_ns: f64, error: String },
    /// Its call had not returned when the bound was reached.
    Waits,
    /// Its call had not returned when the bound was reached. The server went on then, and the call
    /// returned with its answer.
    WaitsAndGoesOn,
}

/// The load is longer than what happens meanwhile: the callers have not ended by themselves.
fn calls_for(time: Duration) -> String {
    format!("load 0 1 {}", (BEFORE + time).as_millis())
}

/// Kills the server of a caller that makes one call after another.
pub(super) fn killed(
    way: &PeerWay,
    directory: &Path,
    placement: &Placement,
    times: &Times,
) -> Result<CallerFate, BenchError> {
    let mut pair = PeerPair::start(way, directory, (&placement.all, &placement.all))?;
    pair.order(&calls_for(times.bound + PATIENCE))?;
    thread::sleep(BEFORE);
    let begun = Instant::now();
    pair.kill_server()?;
    fate(&mut pair, begun, times)
}

/// Stops the server of such a caller, and lets it go on when the bound is reached.
pub(super) fn stopped(
    way: &PeerWay,
    directory: &Path,
    placement: &Placement,
    times: &Times,
) -> Result<CallerFate, BenchError> {
    let mut pair = PeerPair::start(way, directory, (&placement.all, &placement.all))?;
    // If the caller goes on, it ends soon after.
    pair.order(&calls_for(times.bound + BEFORE))?;
    thread::sleep(BEFORE);
    let begun = Instant::now();
    pair.stop_server()?;
    let fate = fate(&mut pair, begun, times)?;
    pair.resume_server()?;
    if fate != CallerFate::Waits {
        return Ok(fate);
    }
    match pair.answer(times.bound.max(Duration::from_secs(2))) {
        Ok(Some(ClientLine::CallsDone(_))) => Ok(CallerFate::WaitsAndGoesOn),
        _ => {
            pair.kill_client();
            Ok(CallerFate::Waits)
        }
    }
}

fn fate(pair: &mut PeerPair, begun: Instant, times: &Times) -> Result<CallerFate, BenchError> {
    let after = || begun.elapsed().as_nanos() as f64;
    match pair.answer(times.bound) {
        Ok(Some(ClientLine::Failed { error })) => Ok(CallerFate::Error { after_ns: after(), error }),
        Ok(Some(other)) => Err(format!("the client's calls end with {other:?}").into()),
        Ok(None) => Ok(CallerFate::Waits),
        // The package has ended the client's process.
        Err(error) => Ok(CallerFate::Error { after_ns: after(), error: error.to_string() }),
    }
}
