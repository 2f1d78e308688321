//! `exclusive`: a call of a service that one thread at a time runs (OThreads, section 5.3), beside
//! the same service with a mutex.

use super::{ONE_EACH, Processors, figures};
use crate::BenchError;
use crate::calls::Calls;
use crate::measure::contest::Subject;
use crate::processes::client::ScenarioClient;
use crate::processes::role::ChildRole;
use std::cell::Cell;
use std::time::Duration;
use underpass::sync::Mutex;
use underpass::{CallError, Server};

/// A server without a lock is to take no longer than one with a lock.
const BAR: f64 = 1.0;

/// How long the server may take to start.
const APPEAR: Duration = Duration::from_secs(10);

/// Counts its calls.
#[underpass::interface]
pub trait Count {
    /// Returns how many calls there were.
    fn count(&self) -> Result<u64, CallError>;
}

struct Locked(Mutex<u64>);

impl Count for Locked {
    fn count(&self) -> Result<u64, CallError> {
        let mut calls = self.0.lock().map_err(|e| CallError::Panicked(e.to_string()))?;
        *calls += 1;
        Ok(*calls)
    }
}

#[derive(Default)]
struct Unlocked(Cell<u64>);

impl Count for Unlocked {
    fn count(&self) -> Result<u64, CallError> {
        self.0.set(self.0.get() + 1);
        Ok(self.0.get())
    }
}

/// The subjects, by the names of their exports. The first is the limit.
const NAMES: [&str; 3] = ["mutex", "exclusive", "sequential"];

/// Serves all of them until the process is killed.
pub(super) fn serve(_: &ChildRole) -> Result<(), BenchError> {
    let [mutex, exclusive, sequential] = NAMES;
    let server = Server::new()
        .export(mutex, Count::serve(Locked(Mutex::new(0))))
        .export(exclusive, Count::serve_exclusive(Unlocked::default()))
        .export(sequential, Count::serve_sequential(Unlocked::default()));
    Ok(server.run()?)
}

/// Each side on a CPU of its own: calls do not contend.
pub(super) fn pinned(client: &ScenarioClient) -> Result<(), BenchError> {
    measure(client, "exclusive/pinned", &[1, 16], ONE_EACH)
}

/// Both sides on all CPUs: the server's activations contend.
pub(super) fn floating(client: &ScenarioClient) -> Result<(), BenchError> {
    let all = client.placement().all.len();
    measure(client, "exclusive/floating", &[16], Processors { clients: all, servers: all })
}

fn measure(
    client: &ScenarioClient,
    case: &str,
    all: &[u64],
    processors: Processors,
) -> Result<(), BenchError> {
    let mut stubs = Vec::new();
    for name in NAMES {
        let stub = CountClient::import_within(name, APPEAR)?;
        let first = stub.clone();
        // As in `calls::import`.
        underpass::thread::spawn(move || first.count()).join().map_err(|_| "the first caller panicked")??;
        stubs.push(stub);
    }
    client.settle()?;
    for (part, &threads) in all.iter().enumerate() {
        let calls = |place: usize| {
            let stub = stubs[place].clone();
            Calls::new(NAMES[place], threads, move || stub.count().map(drop))
        };
        let (mut mutex, mut exclusive, mut sequential) = (calls(0), calls(1), calls(2));
        let subjects: &mut [&mut dyn Subject] = &mut [&mut mutex, &mut exclusive, &mut sequential];
        let contest = client.contest(subjects, part, all.len())?;
        let figures = figures(&contest, (1, 0), (&exclusive, processors));
        let figures = figures
            .with("sequential_ns", contest.measured[2].slices().median())
            .with("sequential_ratio", contest.ratios(2, 0).median());
        let met = figures.ratio <= BAR;
        client.report(case, figures.judged("bar", BAR, met))?;
    }
    Ok(())
}
