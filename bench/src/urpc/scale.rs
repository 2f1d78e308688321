//! `scale`: calls over ten bindings of a server that has a thousand, compared with calls over ten
//! of a server that has no others.
//!
//! Each server has a client of its own, so that neither side of the ten has more to poll. The two
//! pairs take turns. While one is measured the other sleeps.

use super::{ONE_EACH, Processors};
use crate::calls::{self, Calls, Probe, ProbeClient};
use crate::measure::call_counters::CountedCalls;
use crate::measure::contest::Subject;
use crate::processes::client::ScenarioClient;
use crate::processes::helper::{Does, Helper, HelperTask, obey};
use crate::{BenchError, Figures};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Bindings that carry calls.
const ACTIVE: usize = 10;
/// All bindings of the larger server.
const ALL: usize = 1_000;
/// The bar relative to the ten alone.
const BAR: f64 = 1.3;
/// One thread that calls over all ten in turn, and one thread for each.
const THREADS: [u64; 2] = [1, ACTIVE as u64];

/// How long bindings may take until neither side polls them any more.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client with that many bindings, of which it uses the first ten.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ManyBindings {
    name: String,
    bindings: usize,
}

/// An order.
#[derive(Serialize, Deserialize)]
struct Order {
    threads: u64,
    calls: u64,
}

/// The result of an order.
#[derive(Serialize, Deserialize)]
struct Done {
    ns: u64,
    counts: CountedCalls,
    /// The bindings that client and server poll.
    active: [u64; 2],
}

impl ManyBindings {
    pub(crate) fn perform(self) -> Result<(), BenchError> {
        let opened = (0..self.bindings).map(|_| calls::bind_apart_to(&self.name));
        let all = opened.collect::<Result<Vec<_>, _>>()?;
        all.iter().try_for_each(ProbeClient::null)?;
        let busy: Arc<[ProbeClient]> = all[..ACTIVE].into();
        let settling = Arc::clone(&busy);
        underpass::thread::spawn(move || settle(&settling)).join().map_err(|_| "a caller panicked")??;
        obey(|Order { threads, calls }| {
            let (busy, next) = (Arc::clone(&busy), Arc::new(AtomicUsize::new(0)));
            let probe = busy[0].clone();
            // Relaxed: it does not matter which binding is taken.
            let call = move || busy[next.fetch_add(1, Ordering::Relaxed) % ACTIVE].null();
            let mut callers = Calls::new("crowd", threads, call).counted(&probe);
            let ns = callers.batch(calls)?;
            Ok(Done { ns, counts: callers.counts(), active: active(&probe)? })
        })
    }
}

/// The bindings that client and server poll.
fn active(probe: &ProbeClient) -> Result<[u64; 2], underpass::CallError> {
    Ok([underpass::active_bindings() as u64, probe.active()?])
}

/// Calls until neither side polls the other bindings any more. A user-level thread calls, so that
/// this side has a processor that polls.
fn settle(busy: &[ProbeClient]) -> Result<(), BenchError> {
    let start = Instant::now();
    loop {
        let looked_at = active(&busy[0])?;
        if looked_at.iter().all(|&bindings| bindings <= ACTIVE as u64) {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            return Err(format!("client and server look at {looked_at:?} bindings still").into());
        }
        for _ in 0..1_000 {
            busy.iter().try_for_each(ProbeClient::null)?;
        }
    }
}

/// A pair as a subject.
struct OnCrowd<'a> {
    name: &'static str,
    client: &'a mut Helper,
    threads: u64,
    counts: CountedCalls,
    active: [u64; 2],
}

impl Subject for OnCrowd<'_> {
    fn name(&self) -> &str {
        self.name
    }

    /// The pair warms up by itself.
    fn batch(&mut self, calls: u64) -> Result<u64, BenchError> {
        let done: Done = self.client.order(&Order { threads: self.threads, calls })?;
        self.counts.merge(&done.counts);
        self.active = done.active;
        Ok(done.ns)
    }

    /// The pair times only many calls at once.
    fn single(&mut self, _: u64, _: &mut Vec<f64>) -> Result<(), BenchError> {
        Ok(())
    }
}

pub(super) fn client(client: &ScenarioClient) -> Result<(), BenchError> {
    let (near, far) = (client.placement().near, client.placement().far.ok_or("there is no second CPU")?);
    let pair = |name: &str, bindings| {
        let server = Helper::start(&HelperTask { cpus: vec![far], does: Does::Serve(name.into()) })?;
        let crowd = ManyBindings { name: name.into(), bindings };
        Ok::<_, BenchError>((
            server,
            Helper::start(&HelperTask { cpus: vec![near], does: Does::ManyBindings(crowd) })?,
        ))
    };
    let (_few, mut few) = pair("few", ACTIVE)?;
    let (_many, mut many) = pair("many", ALL)?;
    client.settle()?;
    let Processors { clients, servers } = ONE_EACH;
    for (part, threads) in THREADS.into_iter().enumerate() {
        let on =
            |name, client| OnCrowd { name, client, threads, counts: CountedCalls::default(), active: [0; 2] };
        let (mut alone, mut among) = (on("ten-bindings", &mut few), on("of-a-thousand", &mut many));
        let contest = client.contest(&mut [&mut alone, &mut among], part, THREADS.len())?;
        let figures = Figures::of(&contest, 1, 0);
        let rate = (1e9 / figures.ns).round() as u64;
        let figures =
            figures.with("T", threads).with("C", clients).with("S", servers).with("calls_per_s", rate);
        let figures = figures.with_detail("bindings", ALL).with_detail("client_active", among.active[0]);
        let figures = among.counts.tell(figures.with_detail("server_active", among.active[1]));
        let met = figures.ratio <= BAR;
        client.report("scale", figures.judged("bar", BAR, met))?;
    }
    Ok(())
}
