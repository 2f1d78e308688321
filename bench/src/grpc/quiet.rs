//! The first call after a second without one, and the processor time of a channel without calls.

use crate::calls::{self, Probe};
use crate::grpc::server::{GrpcWay, connect};
use crate::processes::client::ScenarioClient;
use crate::{BenchError, Figures, Summary};
use std::time::Duration;
use tokio::runtime::Builder;
use underpass_os::clock::{cpu_ns, now_ns};
use underpass_test_grpc::generated::Empty;

const PAUSE: Duration = Duration::from_secs(1);

/// The processor time that counts as none: half of a percent.
const NOTHING: f64 = 0.005;

/// How much slower than tonic over a Unix socket the first call may be.
const FIRST: f64 = 1.0;

pub(super) fn measure(client: &ScenarioClient) -> Result<(), BenchError> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let probe = calls::import()?;
    let ways = [GrpcWay::Underpass, GrpcWay::Unix];
    let mut clients = Vec::new();
    for way in ways {
        clients.push(runtime.block_on(connect(way, client.scratch()))?);
    }
    let rounds = if client.effort().few { 3 } else { 20 };
    let (mut near, mut far, mut passed) = (0, 0, 0);
    let mut firsts = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for (to, firsts) in clients.iter_mut().zip(&mut firsts) {
            let (far_before, near_before, begun) = (probe.cpu_ns()?, cpu_ns(), now_ns());
            std::thread::sleep(PAUSE);
            passed += now_ns() - begun;
            near += cpu_ns() - near_before;
            let begun = now_ns();
            runtime.block_on(to.empty_call(Empty {}))?;
            firsts.push((now_ns() - begun) as f64);
            far += probe.cpu_ns()? - far_before;
        }
        client.progress(f64::from(round) / f64::from(rounds));
    }
    let [own, unix] = firsts.map(Summary::of);
    let figures = Figures::one(own.median(), "unix", unix.median());
    let met = figures.ratio <= FIRST;
    if client.wants("first/1s") {
        client.report("first/1s", figures.judged("bar", FIRST, met))?;
    }
    for (case, used) in [("idle/client", near), ("idle/server", far)] {
        if client.wants(case) {
            let share = used as f64 / passed as f64;
            let figures = Figures::one(share * 1e9, "second", 1e9);
            client.report(case, figures.judged("bar", NOTHING, share <= NOTHING))?;
        }
    }
    Ok(())
}
