//! `value`: an interface that a method returns, made and dropped, and what many live ones take.

use crate::calls::{self, Calls};
use crate::measure::contest::Subject;
use crate::processes::client::ScenarioClient;
use crate::processes::role::ChildRole;
use crate::{BenchError, Figures};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use underpass::{CallError, thread};

/// One is to be made and dropped in this time, in ns.
const BAR_NS: f64 = 5_000.0;

/// A live one is to take so many bytes, on both sides together.
const BAR_BYTES: f64 = 300.0;

/// How many are alive while their bytes are counted, and in a quick run.
const LIVE: u64 = 100_000;
const FEW_LIVE: u64 = 10_000;

/// How many one call returns then. A message has at most 1,024.
const AT_ONCE: u64 = 1_000;

/// The name under which they are given.
const NAME: &str = "giver";

/// How long the server may take to start.
const APPEAR: Duration = Duration::from_secs(10);

/// What is made and dropped.
#[underpass::interface]
pub trait Given {
    /// Does nothing.
    fn null(&self) -> Result<(), CallError>;
}

/// Makes them.
#[underpass::interface]
pub trait Giver {
    /// Does nothing.
    fn null(&self) -> Result<(), CallError>;
    /// One.
    fn give(&self) -> Result<GivenClient, CallError>;
    /// So many.
    fn give_many(&self, count: u64) -> Result<Vec<GivenClient>, CallError>;
    /// How many were not dropped yet.
    fn live(&self) -> Result<u64, CallError>;
    /// How many bytes of memory of its own the server has.
    fn bytes(&self) -> Result<u64, CallError>;
}

#[derive(Default)]
struct Gives(Arc<AtomicU64>);

/// The implementation. It has nothing but the count, so that the rest is the runtime's.
struct One(Arc<AtomicU64>);

impl Drop for One {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Given for One {
    fn null(&self) -> Result<(), CallError> {
        Ok(())
    }
}

impl Gives {
    fn one(&self) -> GivenClient {
        self.0.fetch_add(1, Ordering::Relaxed);
        GivenClient::new(One(self.0.clone()))
    }
}

impl Giver for Gives {
    fn null(&self) -> Result<(), CallError> {
        Ok(())
    }

    fn give(&self) -> Result<GivenClient, CallError> {
        Ok(self.one())
    }

    fn give_many(&self, count: u64) -> Result<Vec<GivenClient>, CallError> {
        Ok((0..count).map(|_| self.one()).collect())
    }

    fn live(&self) -> Result<u64, CallError> {
        Ok(self.0.load(Ordering::Relaxed))
    }

    fn bytes(&self) -> Result<u64, CallError> {
        Ok(own_bytes())
    }
}

/// Memory of this process that is in use and belongs to no file.
fn own_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Serves until the process is killed.
pub(super) fn serve(_: &ChildRole) -> Result<(), BenchError> {
    Ok(calls::exporting(calls::NAME).export(NAME, Giver::serve(Gives::default())).run()?)
}

/// Waits until the server has dropped all.
fn until_dropped(giver: &GiverClient) -> Result<(), CallError> {
    while giver.live()? > 0 {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The bytes that one of many live ones takes here and at the server.
fn bytes(giver: &GiverClient, live: u64) -> Result<[f64; 2], BenchError> {
    let mut held = Vec::with_capacity((live / AT_ONCE) as usize);
    let before = [own_bytes(), giver.bytes()?];
    for _ in 0..live / AT_ONCE {
        held.push(giver.give_many(AT_ONCE)?);
    }
    let after = [own_bytes(), giver.bytes()?];
    drop(held);
    until_dropped(giver)?;
    let each = |side: usize| after[side].saturating_sub(before[side]) as f64 / live as f64;
    Ok([each(0), each(1)])
}

/// Their bytes first, as memory that is free again is still counted.
pub(super) fn client(client: &ScenarioClient) -> Result<(), BenchError> {
    let probe = calls::import()?;
    let giver = GiverClient::import_within(NAME, APPEAR)?;
    let live = if client.few() { FEW_LIVE } else { LIVE };
    let [here, there] = bytes(&giver, live)?;
    client.settle()?;
    let (null, one) = (giver.clone(), giver.clone());
    let mut nothing = Calls::new("null", 1, move || null.null());
    let mut made = Calls::new("made and dropped", 1, move || one.give().map(drop)).counted(&probe);
    let subjects: &mut [&mut dyn Subject] = &mut [&mut nothing, &mut made];
    let contest = client.contest(subjects, 0, 1)?;
    until_dropped(&giver)?;
    let figures = made.tell(Figures::of(&contest, 1, 0));
    let met = figures.ns <= BAR_NS;
    let figures = figures.judged("bar", BAR_NS, met).with("live", live);
    let figures = figures.with("client_bytes", here.round()).with("server_bytes", there.round());
    let met = here + there <= BAR_BYTES;
    client.report("value", figures.judged("bytes_bar", BAR_BYTES, met))
}
