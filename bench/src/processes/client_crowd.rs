//! Several client processes that call one server at once, each on a processor of its own.

use crate::calls::{self, Probe, ProbeClient, TimeWindow};
use crate::measure::call_counters::{CallCounters, CrowdCounts};
use crate::measure::contest::Subject;
use crate::processes::helper::{Does, Helper, HelperTask, obey};
use crate::{BenchError, Figures, Summary};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A window is at least so long, because the processes do not begin at the same moment.
const LEAST_WINDOW: Duration = Duration::from_millis(20);

/// A client of the server of this name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WindowCaller {
    server: String,
}

/// What a client is told to do.
#[derive(Debug, Serialize, Deserialize)]
enum CallerOrder {
    /// Warm up, and call for so many ns.
    Call(u64),
    /// Ask the server for its counters.
    Count,
}

/// What a client has done, or what the server has counted.
#[derive(Debug, Serialize, Deserialize)]
struct CallerDone {
    calls: u64,
    ns: u64,
    counted: CallCounters,
}

impl WindowCaller {
    pub(crate) fn perform(self) -> Result<(), BenchError> {
        let probe = calls::bind_to(&self.server)?;
        obey(|order: CallerOrder| {
            let probe = probe.clone();
            let done = underpass::thread::spawn(move || perform(&probe, &order)).join();
            done.map_err(|_| "a calling thread panicked")?
        })
    }
}

fn perform(probe: &ProbeClient, order: &CallerOrder) -> Result<CallerDone, BenchError> {
    let CallerOrder::Call(ns) = order else {
        return Ok(CallerDone { calls: 0, ns: 0, counted: probe.counted()? });
    };
    calls::warm_up(|| probe.null())?;
    let before = CallCounters::here();
    let done = TimeWindow::of(Duration::from_nanos(*ns)).run(|| probe.null())?;
    Ok(CallerDone { calls: done.calls, ns: done.ns, counted: CallCounters::here().since(before) })
}

/// Clients of one server. An operation is a call of any of them.
pub(crate) struct ClientCrowd {
    name: String,
    clients: Vec<Helper>,
    window: Duration,
    counts: CrowdCounts,
    /// The calls of a client for each ns, on average and of the slowest, in each window.
    mean: Vec<f64>,
    slowest: Vec<f64>,
}

impl ClientCrowd {
    /// Starts a client of `server` on each of `cpus`. They call for `window` or longer.
    pub(crate) fn start(
        name: &str,
        server: &str,
        cpus: &[usize],
        window: Duration,
    ) -> Result<Self, BenchError> {
        let start = |&cpu: &usize| {
            let caller = WindowCaller { server: server.into() };
            Helper::start(&HelperTask { cpus: vec![cpu], does: Does::Call(caller) })
        };
        Ok(Self {
            name: name.into(),
            clients: cpus.iter().map(start).collect::<Result<_, _>>()?,
            window: window.max(LEAST_WINDOW),
            counts: CrowdCounts::default(),
            mean: Vec::new(),
            slowest: Vec::new(),
        })
    }

    /// What the server has counted so far. One client asks it, while none calls.
    fn server_counted(&mut self) -> Result<CallCounters, BenchError> {
        let first = self.clients.first_mut().ok_or("a crowd needs a client")?;
        Ok(first.order::<CallerDone>(&CallerOrder::Count)?.counted)
    }

    /// Adds the counts, and how far the slowest client was behind the mean.
    pub(crate) fn tell(&self, figures: Figures) -> Figures {
        let a_second =
            |rates: &[f64]| Summary::of(rates.iter().map(|rate| rate * 1e9)).median().round() as u64;
        let figures = figures
            .with("clients", self.clients.len())
            .with("mean_calls_per_s", a_second(&self.mean))
            .with("slowest_calls_per_s", a_second(&self.slowest));
        self.counts.tell(figures)
    }
}

impl Subject for ClientCrowd {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_windowed(&self) -> bool {
        true
    }

    /// Each client warms up by itself, and calls for the window.
    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        let before = self.server_counted()?;
        let order = CallerOrder::Call(self.window.as_nanos() as u64);
        self.clients.iter_mut().try_for_each(|client| client.begin(&order))?;
        let mut rates = Vec::with_capacity(self.clients.len());
        for client in &mut self.clients {
            let CallerDone { calls, ns, counted } = client.heard()?;
            self.counts.add_client(calls, counted);
            rates.push(calls as f64 / ns.max(1) as f64);
        }
        let after = self.server_counted()?;
        self.counts.add_server(before, after);
        let all = rates.iter().sum::<f64>();
        self.mean.push(all / rates.len() as f64);
        self.slowest.push(rates.iter().copied().fold(f64::INFINITY, f64::min));
        Ok((operations as f64 / all) as u64)
    }

    /// A window is timed as a whole.
    fn single(&mut self, _: u64, _: &mut Vec<f64>) -> Result<(), BenchError> {
        Ok(())
    }
}
