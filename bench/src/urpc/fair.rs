//! `fair`: a call beside a client that floods the server, and the time of that client's share of
//! the server.
//!
//! The calls compute for a while, so that both clients compete for the server and not for the CPU
//! that they share.

use super::{ONE_EACH, figures};
use crate::BenchError;
use crate::calls::{self, CallFn, Calls, Probe, ProbeClient};
use crate::measure::contest::Subject;
use crate::processes::client::ScenarioClient;
use crate::processes::helper::{Does, Helper, HelperTask, obey};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use underpass::thread::{self, JoinHandle};
use underpass_threads::SHARE;

/// The flood's calls in progress: four times its share, which it would take if the server were
/// first come, first served.
const THREADS: u64 = 4 * SHARE as u64;

/// What a call computes.
const CALL: Duration = Duration::from_micros(50);

/// The bar for a call beside the flood, relative to its own time plus that of a share. It allows a
/// quarter for the CPU that the clients share. A first-come-first-served server would need 3.5
/// times that.
const BAR: f64 = 1.25;

/// A client whose threads call repeatedly while it is told to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Flood {
    threads: u64,
    ns: u64,
}

/// The calls of the flood, in progress.
struct Running {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<(), underpass::CallError>>>,
}

impl Flood {
    pub(crate) fn perform(self) -> Result<(), BenchError> {
        let probe = calls::import()?;
        let mut running: Option<Running> = None;
        obey(|on: bool| {
            if let Some(Running { over, threads }) = running.take() {
                // Relaxed: the word only says that they shall end.
                over.store(true, Ordering::Relaxed);
                for thread in threads {
                    thread.join().map_err(|_| "a thread of the flood panicked")??;
                }
            }
            running = on.then(|| self.begin(&probe));
            Ok(())
        })
    }

    /// Starts the flood. Afterwards each thread has a call in progress.
    fn begin(&self, probe: &ProbeClient) -> Running {
        let (over, ns) = (Arc::new(AtomicBool::new(false)), self.ns);
        let before = probe.counters().calls;
        let caller = |_| {
            let (probe, over) = (probe.clone(), Arc::clone(&over));
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    probe.compute(ns)?;
                }
                Ok(())
            })
        };
        let threads = (0..self.threads).map(caller).collect();
        while probe.counters().calls < before + self.threads {
            std::thread::yield_now();
        }
        Running { over, threads }
    }
}

/// Calls beside the flood.
struct Beside<'a, F> {
    flood: &'a mut Helper,
    calls: Calls<F>,
}

impl<F: CallFn> Beside<'_, F> {
    fn during<T>(
        &mut self,
        what: impl FnOnce(&mut Calls<F>) -> Result<T, BenchError>,
    ) -> Result<T, BenchError> {
        let () = self.flood.order(&true)?;
        let done = what(&mut self.calls)?;
        let () = self.flood.order(&false)?;
        Ok(done)
    }
}

impl<F: CallFn> Subject for Beside<'_, F> {
    fn name(&self) -> &str {
        self.calls.name()
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        self.during(|calls| calls.batch(operations))
    }

    fn single(&mut self, operations: u64, samples: &mut Vec<f64>) -> Result<(), BenchError> {
        self.during(|calls| calls.single(operations, samples))
    }
}

/// A call by itself, and the calls of a share.
struct Share<F>(Calls<F>);

/// The ns that the calls of a share compute.
fn share_ns() -> u64 {
    u64::from(SHARE) * CALL.as_nanos() as u64
}

impl<F: CallFn> Subject for Share<F> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        Ok(self.0.batch(operations)? + operations * share_ns())
    }

    fn single(&mut self, _: u64, _: &mut Vec<f64>) -> Result<(), BenchError> {
        Ok(())
    }
}

pub(super) fn client(client: &ScenarioClient) -> Result<(), BenchError> {
    let probe = calls::import()?;
    let ns = CALL.as_nanos() as u64;
    let flood = Flood { threads: THREADS, ns };
    let mut flood =
        Helper::start(&HelperTask { cpus: vec![client.placement().near], does: Does::Flood(flood) })?;
    client.settle()?;
    let quiet = |name| {
        let caller = probe.clone();
        Calls::new(name, 1, move || caller.compute(ns)).counted(&probe)
    };
    let mut share = Share(quiet("alone-and-share"));
    let mut beside = Beside { flood: &mut flood, calls: quiet("beside-flood") };
    let contest = client.contest(&mut [&mut share, &mut beside], 0, 1)?;
    let figures = figures(&contest, (1, 0), (&beside.calls, ONE_EACH));
    let alone = figures.limit_ns - share_ns() as f64;
    let figures = figures.with_detail("alone_ns", alone).with_detail("flood_threads", THREADS);
    let met = figures.ratio <= BAR;
    client.report("fair", figures.judged("bar", BAR, met))
}
