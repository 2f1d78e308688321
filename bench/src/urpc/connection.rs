//! `connection`: many interfaces between two domains share one connection (URPC, section 2).

use super::{ONE_EACH, ONE_TO_SHARE, figures};
use crate::calls::{self, Calls, Probe, ProbeClient};
use crate::measure::contest::Subject;
use crate::measure::in_process::InProcess;
use crate::processes::client::ScenarioClient;
use crate::processes::role::ChildRole;
use crate::{BenchError, Figures};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// How many interfaces the server exports.
const MANY: usize = 100;

/// Threads that call over three interfaces at once.
const THREADS: u64 = 12;

/// A call over one of many bindings, relative to one over a connection of its own.
const AS_FAST: f64 = 1.05;

/// A further import, relative to a first one.
const FURTHER: f64 = 0.5;

/// Calls over three interfaces, relative to as many over one, where one donation serves them all.
const THREE: f64 = 1.1;

fn name(n: usize) -> String {
    format!("{}-{n}", calls::NAME)
}

/// Serves all of them until the process is killed.
pub(super) fn serve(_: &ChildRole) -> Result<(), BenchError> {
    let first = calls::exporting(calls::NAME);
    Ok((1..MANY).fold(first, |server, n| calls::export(server, &name(n))).run()?)
}

/// The same, without processors of its own.
pub(super) fn serve_donated(role: &ChildRole) -> Result<(), BenchError> {
    underpass::processors::set(0);
    serve(role)
}

/// Bindings to the first so many interfaces, over one connection.
fn import(count: usize) -> Result<Vec<ProbeClient>, BenchError> {
    let first = calls::import()?;
    let others = (1..count).map(|n| calls::bind_to(&name(n)));
    [Ok(first)].into_iter().chain(others).collect()
}

/// Calls that go over one binding after another.
fn in_turn(of: &str, threads: u64, stubs: &[ProbeClient]) -> Calls<impl calls::CallFn> {
    let (stubs, next): (Arc<[ProbeClient]>, _) = (stubs.into(), Cell::new(0));
    Calls::new(of, threads, move || {
        let n = next.get();
        next.set((n + 1) % stubs.len());
        stubs[n].null()
    })
}

/// A hundred bindings: what a call and what an import take.
pub(super) fn many(client: &ScenarioClient) -> Result<(), BenchError> {
    let stubs = import(MANY)?;
    let apart = calls::bind_apart()?;
    client.settle()?;
    let mut alone = in_turn("alone", 1, std::slice::from_ref(&apart));
    let (mut one, mut all) = (in_turn("one of 100", 1, &stubs[..1]), in_turn("each of 100", 1, &stubs));
    let subjects: &mut [&mut dyn Subject] = &mut [&mut alone, &mut one, &mut all];
    let contest = client.contest(subjects, 0, 2)?;
    let figures = figures(&contest, (1, 0), (&one, ONE_EACH));
    let figures = figures
        .with("each_ns", contest.measured[2].slices().median())
        .with("each_ratio", contest.ratios(2, 0).median());
    let met = figures.ratio <= AS_FAST;
    client.report("connection/100", figures.judged("bar", AS_FAST, met))?;
    imports(client)
}

/// A further import beside a first one. Each is dropped at once.
fn imports(client: &ScenarioClient) -> Result<(), BenchError> {
    let failed = RefCell::new(None);
    let keep = |made: Result<ProbeClient, BenchError>| match made {
        Ok(stub) => drop(stub),
        Err(error) => drop(failed.borrow_mut().get_or_insert(error)),
    };
    let mut first = InProcess::new("first", 1, |_| keep(calls::bind_apart()));
    let mut further = InProcess::new("further", 1, |_| keep(calls::bind()));
    let contest = client.contest(&mut [&mut first, &mut further], 1, 2)?;
    if let Some(error) = failed.into_inner() {
        return Err(error);
    }
    let figures = Figures::of(&contest, 1, 0);
    let met = figures.ratio <= FURTHER;
    client.report("connection/import", figures.judged("bar", FURTHER, met))
}

/// A server without processors, and calls over three interfaces at once.
pub(super) fn three(client: &ScenarioClient) -> Result<(), BenchError> {
    let stubs = import(3)?;
    client.settle()?;
    let (mut one, mut three) = (
        in_turn("one interface", THREADS, &stubs[..1]).counted(&stubs[0]),
        in_turn("three interfaces", THREADS, &stubs).counted(&stubs[0]),
    );
    let contest = client.contest(&mut [&mut one, &mut three], 0, 1)?;
    let figures = figures(&contest, (1, 0), (&three, ONE_TO_SHARE));
    let met = figures.ratio <= THREE;
    client.report("connection/three", figures.judged("bar", THREE, met))
}
