//! One counter that 16 threads of two domains count up: under locks in shared memory, and at its
//! home.

use super::hybrid::HybridData;
use super::kernel::{COUNT, KernelCalls, KernelConnection, KernelRegion};
use crate::processes::client::ScenarioClient;
use crate::raw::pthread::{PthreadMutex, Robustness, WORDS};
use crate::raw::region_words::words;
use crate::{BenchError, Figures, Summary};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use underpass_os::clock::now_ns;

/// Threads of each domain.
const THREADS: u64 = 8;
/// The ways to count.
const WAYS: [&str; 6] = ["spin", "pthread", "mutex", "hybrid", "call", "interrupt"];
/// Those with which the ways of a home are compared: a hybrid lock, and both invocations.
const LOCKS: usize = 3;
/// Longer than any invocation.
const WITHIN: Duration = Duration::from_secs(10);

/// The counter at home, which its home alone changes.
static AT_HOME: AtomicU64 = AtomicU64::new(0);

/// Counts up at home.
pub(super) fn one_more() -> u64 {
    AT_HOME.fetch_add(1, Ordering::Relaxed)
}

/// The spin lock and its counter, and the C library's mutex and its counter.
struct RawLocks {
    lock: &'static AtomicU64,
    spun: &'static AtomicU64,
    mutex: PthreadMutex,
    locked: &'static AtomicU64,
}

impl RawLocks {
    fn of(region: &'static KernelRegion) -> Result<Self, BenchError> {
        let words: &'static [AtomicU64; 32] = words(&region.raw.lock().map_err(|e| e.to_string())?);
        let mutex = words[8..8 + WORDS].try_into()?;
        Ok(Self { lock: &words[0], spun: &words[1], mutex: PthreadMutex::at(mutex), locked: &words[16] })
    }

    fn spin(&self) {
        // SYNC with the store below: what the last holder did.
        while self.lock.swap(1, Ordering::Acquire) != 0 {
            while self.lock.load(Ordering::Relaxed) != 0 {
                std::hint::spin_loop();
            }
        }
        self.spun.store(self.spun.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        // SYNC with the swap above.
        self.lock.store(0, Ordering::Release);
    }
}

/// The home makes the locks.
pub(super) fn prepare(region: &'static KernelRegion) -> Result<(), BenchError> {
    Ok(RawLocks::of(region)?.mutex.init(Robustness::Stalled)?)
}

/// Counts up so often by that many kernel threads of this domain. `invoke` does it at home. Returns
/// when that began and ended.
fn count(
    (region, hybrid): (&'static KernelRegion, &HybridData),
    way: u64,
    threads: u64,
    times: u64,
    invoke: impl Fn() -> Result<u64, BenchError> + Sync,
) -> Result<(u64, u64), BenchError> {
    let raw = RawLocks::of(region)?;
    let one = || -> Result<(), BenchError> {
        match way {
            0 => raw.spin(),
            1 => raw.mutex.locked(|| {
                raw.locked.store(raw.locked.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }),
            2 => region.counter.lock().map_err(|e| e.to_string())?.update(|counter| *counter += 1)?,
            3 => drop(hybrid.count()?),
            _ => drop(invoke()?),
        }
        Ok(())
    };
    let begun = now_ns();
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| (0..times).try_for_each(|_| one()))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a counting thread panicked")?)
    })?;
    Ok((begun, now_ns()))
}

/// The home's half.
pub(super) fn count_at_home(
    data: (&'static KernelRegion, &HybridData),
    way: u64,
    threads: u64,
    times: u64,
) -> Result<(u64, u64), BenchError> {
    underpass::thread::blocking(|| count(data, way, threads, times, || Ok(one_more())))
}

pub(super) fn measure(client: &ScenarioClient) -> Result<(), BenchError> {
    let home = KernelConnection::import()?;
    let hybrid = HybridData::import()?;
    let effort = client.effort();
    let mut taken: [Vec<f64>; WAYS.len()] = Default::default();
    let times = if effort.few { 200 } else { 2_000 };
    for round in 0..effort.least {
        client.progress(round as f64 / effort.least as f64);
        for (way, taken) in taken.iter_mut().enumerate() {
            taken.push(both_count(&home, &hybrid, way as u64, times)? / (2 * THREADS * times) as f64);
        }
    }
    let medians = taken.map(|taken| Summary::of(taken).median());
    let best = medians[..LOCKS].iter().copied().fold(f64::INFINITY, f64::min);
    let ours = medians[LOCKS..].iter().copied().fold(f64::INFINITY, f64::min);
    let mut figures = Figures::one(ours, "best lock", best).with("threads", 2 * THREADS);
    for (name, ns) in WAYS.into_iter().zip(medians) {
        figures = figures.with(&format!("{name}_ns"), ns);
    }
    let met = figures.ratio <= 1.0;
    client.report("counter", figures.judged("bar", 1.0, met))
}

/// Both domains count. Returns the ns from the first begin to the last end.
fn both_count(home: &KernelConnection, hybrid: &HybridData, way: u64, times: u64) -> Result<f64, BenchError> {
    let calls = home.calls.clone();
    let theirs = std::thread::spawn(move || calls.count(way, THREADS, times));
    let (begun, ended) = count((home.region, hybrid), way, THREADS, times, || match way {
        4 => Ok(home.calls.count_one()?),
        _ => Ok(home.invoker.invoke(COUNT, [0; 6], WITHIN)?[0]),
    })?;
    let (their_begin, their_end) = theirs.join().map_err(|_| "a calling thread panicked")??;
    Ok((ended.max(their_end) - begun.min(their_begin)) as f64)
}
