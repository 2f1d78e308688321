//! `othreads-table2`: locks and conditions within a domain and across domains (OThreads, Table 2).
//!
//! Two threads take turns. An iteration is what one of them does from turn to turn: it acquires the
//! mutex, signals the other one, waits for it, and releases the mutex. The other one does the same
//! meanwhile. So an iteration across domains takes a message each way, as a call does.

use crate::calls::{self, Calls, Probe};
use crate::catalogue::{Benchmark, Scenario};
use crate::measure::contest::{Contest, Subject};
use crate::measure::in_process::InProcess;
use crate::processes::client::ScenarioClient;
use crate::processes::role::ChildRole;
use crate::raw::pthread::{PthreadMutex, Robustness, WORDS};
use crate::raw::region_words::words;
use crate::{BenchError, Figures, Pinning};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use underpass::shared::{Condvar, Mutex, Region};
use underpass::{CallError, Outcome, sync, thread};

/// The bars: for a mutex that nobody else wants, relative to the C library's; and for an iteration
/// of two domains, relative to a call, on two processors and on one.
const UNCONTENDED: f64 = 1.1;
const TWO_PROCESSORS: f64 = 2.0;
const ONE_PROCESSOR: f64 = 1.15;

/// The paper's times, in ns.
const PAPER_LOCAL: f64 = 36_000.0;
const PAPER_ONE_DOMAIN: f64 = 63_000.0;
const PAPER_TWO_DOMAINS: f64 = 870_000.0;

const REGION: &str = "othreads-region";

/// How long the server may take to start.
const APPEAR: Duration = Duration::from_secs(10);

pub(crate) const TABLE2: Benchmark = Benchmark {
    name: "othreads-table2",
    about: "a mutex and a condition variable within a domain and across two, beside a call; a mutex that nobody else wants, beside the C library's (OThreads, Table 2)",
    scenarios: &[
        Scenario {
            name: "two-processors",
            cases: &["uncontended", "local", "one-domain", "two-domains"],
            pinning: Pinning::Apart,
            client: two_processors,
            server: serve,
        },
        Scenario {
            name: "one-processor",
            cases: &["two-domains-one-cpu"],
            pinning: Pinning::Together,
            client: one_processor,
            server: serve,
        },
    ],
};

/// A number whose parity says whose turn it is, and the signal that it has changed.
type Turns = (Mutex<u64>, Condvar);

#[derive(underpass::RegionLayout)]
struct Table2Region {
    lone: Mutex<u64>,
    /// A mutex of the C library.
    raw: Mutex<[u64; WORDS]>,
    /// Of two threads of the client, and of one of each domain.
    near: Turns,
    far: Turns,
}

fn failed(e: impl std::fmt::Display) -> BenchError {
    e.to_string().into()
}

/// Answers each turn, until the process ends.
fn answer((turn, turned): &Turns) -> Result<(), BenchError> {
    let mut held = turn.lock().map_err(failed)?;
    loop {
        held = turned.wait_while(held, |turn| turn % 2 == 0).map_err(failed)?;
        held.update(|turn| *turn += 1)?;
        turned.notify_one();
    }
}

/// An iteration.
fn iterate((turn, turned): &Turns) -> Result<(), BenchError> {
    let mut held = turn.lock().map_err(failed)?;
    held.update(|turn| *turn += 1)?;
    turned.notify_one();
    drop(turned.wait_while(held, |turn| turn % 2 == 1).map_err(failed)?);
    Ok(())
}

/// The same with what threads of one domain have.
type LocalTurns = (sync::Mutex<u64>, sync::Condvar);

fn answer_here((turn, turned): &LocalTurns) -> Result<(), BenchError> {
    let mut held = turn.lock().map_err(failed)?;
    loop {
        held = turned.wait_while(held, |turn| *turn % 2 == 0).map_err(failed)?;
        *held += 1;
        turned.notify_one();
    }
}

fn iterate_here((turn, turned): &LocalTurns) -> Result<(), BenchError> {
    let mut held = turn.lock().map_err(failed)?;
    *held += 1;
    turned.notify_one();
    drop(turned.wait_while(held, |turn| *turn % 2 == 1).map_err(failed)?);
    Ok(())
}

/// Serves calls, and answers the turns of the client.
fn serve(_: &ChildRole) -> Result<(), BenchError> {
    let region = Region::export(REGION, |_: &Table2Region| ()).map_err(failed)?;
    thread::spawn(move || answer(&region.far).expect("the region is there as long as this process"));
    Ok(calls::exporting(calls::NAME).run()?)
}

/// `iterate`, repeated by a thread.
fn iterations(
    name: &str,
    iterate: impl Fn() -> Result<(), BenchError> + Clone + Send + 'static,
) -> Calls<impl calls::CallFn> {
    Calls::new(name, 1, move || {
        iterate().map_err(|e| CallError::NoResources(Outcome::Unknown, e.to_string()))
    })
}

fn two_processors(client: &ScenarioClient) -> Result<(), BenchError> {
    let probe = calls::import()?;
    let region = Region::<Table2Region>::import_within(REGION, APPEAR).map_err(failed)?;
    client.settle()?;
    if client.wants("uncontended") {
        client.report("uncontended", uncontended(client, &region)?)?;
    }
    let local = Arc::new((sync::Mutex::new(0), sync::Condvar::new()));
    let (theirs, near) = (local.clone(), region.clone());
    thread::spawn(move || answer_here(&theirs).expect("nobody poisons the lock"));
    thread::spawn(move || answer(&near.near).expect("the region is there as long as this process"));
    let (one, two) = (region.clone(), region);
    let mut null = Calls::new("null", 1, move || probe.null());
    let mut local = iterations("local", move || iterate_here(&local));
    let mut one = iterations("one-domain", move || iterate(&one.near));
    let mut two = iterations("two-domains", move || iterate(&two.far));
    let contest = client.contest(&mut [&mut null, &mut local, &mut one, &mut two], 1, 2)?;
    let row = |of: usize, paper: f64| Figures::of(&contest, of, 0).with_detail("paper_ns", paper);
    client.report("local", row(1, PAPER_LOCAL))?;
    let to_local = contest.ratios(2, 1).median();
    client.report("one-domain", row(2, PAPER_ONE_DOMAIN).with("local_ratio", to_local))?;
    client.report("two-domains", judged(row(3, PAPER_TWO_DOMAINS), TWO_PROCESSORS))
}

fn judged(figures: Figures, bar: f64) -> Figures {
    let met = figures.ratio <= bar;
    figures.judged("bar", bar, met)
}

fn one_processor(client: &ScenarioClient) -> Result<(), BenchError> {
    let probe = calls::import()?;
    let region = Region::<Table2Region>::import_within(REGION, APPEAR).map_err(failed)?;
    client.settle()?;
    let mut null = Calls::new("null", 1, move || probe.null());
    let mut two = iterations("two-domains", move || iterate(&region.far));
    let contest = client.contest(&mut [&mut null, &mut two], 0, 1)?;
    let figures = Figures::of(&contest, 1, 0).with_detail("paper_ns", PAPER_TWO_DOMAINS);
    client.report("two-domains-one-cpu", judged(figures, ONE_PROCESSOR))
}

/// A mutex that nobody else wants, of a user-level thread and of a kernel thread, beside the C
/// library's robust one.
fn uncontended(client: &ScenarioClient, region: &Region<Table2Region>) -> Result<Figures, BenchError> {
    // The region stays mapped to the end of the process.
    let kept: &'static Region<Table2Region> = Box::leak(Box::new(region.clone()));
    let words: &'static [AtomicU64; WORDS] = words(&kept.raw.lock().map_err(failed)?);
    let raw = PthreadMutex::at(words);
    raw.init(Robustness::Robust)?;
    let mut robust = InProcess::new("pthread", 100, |_| raw.locked(|| ()));
    let mut ours = iterations("mutex", || {
        drop(kept.lone.lock().map_err(failed)?);
        Ok(())
    });
    let mut by_kernel = InProcess::new("mutex-kernel-thread", 100, |_| {
        drop(kept.lone.lock().expect("nobody else has it"));
    });
    let subjects: &mut [&mut dyn Subject] = &mut [&mut robust, &mut ours, &mut by_kernel];
    let contest: Contest = client.contest(subjects, 0, 2)?;
    let figures = Figures::of(&contest, 1, 0)
        .with("kernel_thread_ns", contest.measured[2].slices().median())
        .with("kernel_thread_ratio", contest.ratios(2, 0).median());
    Ok(judged(figures, UNCONTENDED))
}
