//! The home's process: its data in a region and in private memory, and what the client asks of it.

use super::hybrid::HybridData;
use super::operations::{KernelData, KernelOperation, PART, PARTS, QUEUE, fill};
use super::{counter, lines};
use crate::processes::role::ChildRole;
use crate::raw::region_words::words;
use crate::{BenchError, calls};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use underpass::homed::invoke::{HomeInvoker, InvocationHandlers};
use underpass::shared::{Mutex, MutexGuard, Region};
use underpass::{CallError, thread};
use underpass_os::clock::now_ns;

const REGION: &str = "psyche-region";
const CALLS: &str = "psyche-calls";
const INTERRUPTS: &str = "psyche-urgent";
/// How long the home may take to start.
pub(super) const APPEAR: Duration = Duration::from_secs(10);
/// The operation at interrupt level: its arguments are a number of Table 1, and a [`Locking`].
pub(super) const RUN: u64 = 1;
/// Counts a counter up.
pub(super) const COUNT: u64 = 2;
/// Does nothing.
pub(super) const NOTHING: u64 = 3;

/// The data of both domains.
#[derive(underpass::RegionLayout)]
pub(super) struct KernelRegion {
    queue: Mutex<[u64; QUEUE]>,
    parts: [Mutex<[u64; PART]>; PARTS],
    /// What the client holds for as long as it measures.
    held_queue: Mutex<[u64; QUEUE]>,
    held_parts: Mutex<[u64; PART * PARTS]>,
    pub(super) counter: Mutex<u64>,
    /// A spin lock and its counter; and a lock of the C library and its counter.
    pub(super) raw: Mutex<[u64; 32]>,
}

/// How the data of an operation are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Locking {
    /// Not at all: one side has them to itself.
    None,
    /// By a `shared::Mutex` for each part.
    Mutexes,
    /// By a hybrid lock for each part.
    Hybrid,
}

impl Locking {
    pub(super) fn of(number: u64) -> Self {
        [Self::None, Self::Mutexes, Self::Hybrid][(number % 3) as usize]
    }

    pub(super) fn number(self) -> u64 {
        self as u64
    }
}

/// After how many steps of computing a thread of the home gives way, so that the home has safe
/// points: about 100 µs for a thread that is slowed down, and 1 ms for one that keeps it busy.
const SAFE: u64 = 100;
const LATE: u64 = 1_000;

/// What the client asks of the home.
#[underpass::interface]
pub(crate) trait KernelCalls {
    /// Executes an operation, on shared data by locks, or on private data without any.
    fn execute(&self, operation: u64, locking: u64) -> Result<u64, CallError>;
    /// Executes it so many times, and returns the ns that this took.
    fn local(&self, operation: u64, locking: u64, times: u64) -> Result<u64, CallError>;
    /// Writes the shared lines that it uses.
    fn touch(&self, operation: u64, locking: u64) -> Result<(), CallError>;
    /// Computes a fixed amount so many times, and after each writes the shared lines that the
    /// operation uses. Returns the ns that this took.
    fn compute(&self, times: u64, operation: u64) -> Result<u64, CallError>;
    /// Does nothing.
    fn nothing(&self) -> Result<(), CallError>;
    /// Whether a thread computes all the time, and gives way now and then.
    fn keep_busy(&self, busy: bool) -> Result<(), CallError>;
    /// The home's process.
    fn process(&self) -> Result<u32, CallError>;
    /// Counts up by that many threads, each so often, in that way, and returns when it began and
    /// ended.
    fn count(&self, way: u64, threads: u64, times: u64) -> Result<(u64, u64), CallError>;
    /// Counts up once.
    fn count_one(&self) -> Result<u64, CallError>;
}

pub(super) fn failed(e: impl std::fmt::Display) -> BenchError {
    e.to_string().into()
}

fn as_call(e: &BenchError) -> CallError {
    CallError::NoResources(underpass::Outcome::Unknown, e.to_string())
}

/// Data under one lock for each part.
pub(super) struct LockedData {
    region: &'static KernelRegion,
    queue: &'static [AtomicU64],
    parts: Vec<&'static [AtomicU64]>,
}

impl LockedData {
    pub(super) fn of(region: &'static KernelRegion) -> Result<Self, BenchError> {
        let queue = words(&region.queue.lock().map_err(failed)?);
        let parts: Result<Vec<_>, BenchError> =
            region.parts.iter().map(|part| Ok(&words(&part.lock().map_err(failed)?)[..])).collect();
        Ok(Self { region, queue, parts: parts? })
    }
}

impl KernelData for LockedData {
    fn queue(&self, work: impl FnOnce(&[AtomicU64]) -> u64) -> Result<u64, BenchError> {
        let _guard = self.region.queue.lock().map_err(failed)?;
        Ok(work(self.queue))
    }

    fn part(&self, part: usize, work: impl FnOnce(&[AtomicU64]) -> u64) -> Result<u64, BenchError> {
        let _guard = self.region.parts[part].lock().map_err(failed)?;
        Ok(work(self.parts[part]))
    }
}

/// Data in the region, of which one domain holds all locks.
pub(super) struct HeldData {
    queue: &'static [AtomicU64],
    parts: Vec<&'static [AtomicU64]>,
}

/// The locks of [`HeldData`].
pub(super) type HeldLocks = (MutexGuard<'static, [u64; QUEUE]>, MutexGuard<'static, [u64; PART * PARTS]>);

impl HeldData {
    /// The data, and the locks while they are held.
    pub(super) fn of(region: &'static KernelRegion) -> Result<(Self, HeldLocks), BenchError> {
        let queue = region.held_queue.lock().map_err(failed)?;
        let parts = region.held_parts.lock().map_err(failed)?;
        let data = Self { queue: words(&queue), parts: words(&parts).chunks(PART).collect() };
        Ok((data, (queue, parts)))
    }
}

impl KernelData for HeldData {
    fn queue(&self, work: impl FnOnce(&[AtomicU64]) -> u64) -> Result<u64, BenchError> {
        Ok(work(self.queue))
    }

    fn part(&self, part: usize, work: impl FnOnce(&[AtomicU64]) -> u64) -> Result<u64, BenchError> {
        Ok(work(self.parts[part]))
    }
}

/// Data that the home alone has.
pub(super) struct PrivateData {
    queue: Vec<AtomicU64>,
    parts: Vec<AtomicU64>,
}

impl PrivateData {
    pub(super) fn new() -> Self {
        let zeros = |words| (0..words).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let data = Self { queue: zeros(QUEUE), parts: zeros(PART * PARTS) };
        fill(&data.queue);
        data
    }
}

impl KernelData for PrivateData {
    fn queue(&self, work: impl FnOnce(&[AtomicU64]) -> u64) -> Result<u64, BenchError> {
        Ok(work(&self.queue))
    }

    fn part(&self, part: usize, work: impl FnOnce(&[AtomicU64]) -> u64) -> Result<u64, BenchError> {
        Ok(work(&self.parts[part * PART..][..PART]))
    }
}

/// Some computing: 1,000 steps, each of which needs the one before.
pub(super) fn compute(from: u64) -> u64 {
    (0..1_000).fold(from, |number, step| number.rotate_left(5).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ step)
}

/// The data that the home works on.
struct HomeData {
    locked: LockedData,
    hybrid: HybridData,
    own: PrivateData,
}

struct KernelHome {
    region: &'static KernelRegion,
    data: Arc<HomeData>,
    held: HeldData,
    busy: Arc<AtomicBool>,
}

fn run(operation: u64, locking: u64, data: &HomeData) -> Result<u64, BenchError> {
    let operation = KernelOperation::of(operation).ok_or("no such operation")?;
    match Locking::of(locking) {
        Locking::None => operation.run(&data.own),
        Locking::Mutexes => operation.run(&data.locked),
        Locking::Hybrid => operation.run(&data.hybrid),
    }
}

impl KernelCalls for KernelHome {
    fn execute(&self, operation: u64, locking: u64) -> Result<u64, CallError> {
        run(operation, locking, &self.data).map_err(|e| as_call(&e))
    }

    fn local(&self, operation: u64, locking: u64, times: u64) -> Result<u64, CallError> {
        let begun = now_ns();
        for _ in 0..times {
            std::hint::black_box(self.execute(operation, locking)?);
        }
        Ok(now_ns() - begun)
    }

    fn touch(&self, operation: u64, locking: u64) -> Result<(), CallError> {
        let Some(operation) = KernelOperation::of(operation) else { return Ok(()) };
        match Locking::of(locking) {
            Locking::None => operation.touch(self.held.queue, &self.held.parts),
            Locking::Mutexes => operation.touch(self.data.locked.queue, &self.data.locked.parts),
            Locking::Hybrid => self.data.hybrid.touch(operation),
        }
        Ok(())
    }

    fn nothing(&self) -> Result<(), CallError> {
        Ok(())
    }

    fn compute(&self, times: u64, operation: u64) -> Result<u64, CallError> {
        let begun = now_ns();
        let mut number = 1;
        for step in 0..times {
            number = std::hint::black_box(compute(number));
            self.touch(operation, Locking::Mutexes.number())?;
            if step % SAFE == 0 {
                thread::yield_now();
            }
        }
        Ok(now_ns() - begun)
    }

    fn keep_busy(&self, busy: bool) -> Result<(), CallError> {
        if !self.busy.swap(busy, Ordering::Relaxed) && busy {
            let goes_on = self.busy.clone();
            drop(thread::spawn(move || {
                let mut number = 1;
                while goes_on.load(Ordering::Relaxed) {
                    number = (0..LATE).fold(number, |number, _| std::hint::black_box(compute(number)));
                    thread::yield_now();
                }
            }));
        }
        Ok(())
    }

    fn process(&self) -> Result<u32, CallError> {
        Ok(std::process::id())
    }

    fn count(&self, way: u64, threads: u64, times: u64) -> Result<(u64, u64), CallError> {
        counter::count_at_home((self.region, &self.data.hybrid), way, threads, times).map_err(|e| as_call(&e))
    }

    fn count_one(&self) -> Result<u64, CallError> {
        Ok(counter::one_more())
    }
}

/// Serves until the process is killed.
pub(super) fn serve(_: &ChildRole) -> Result<(), BenchError> {
    let region: &'static Region<KernelRegion> =
        Box::leak(Box::new(Region::export(REGION, |_: &KernelRegion| ()).map_err(failed)?));
    let handlers = InvocationHandlers::new();
    let (hybrid, server) = HybridData::export(&handlers, calls::exporting(calls::NAME))?;
    let data = HomeData { locked: LockedData::of(region)?, hybrid, own: PrivateData::new() };
    let (held, locks) = HeldData::of(region)?;
    fill(data.locked.queue);
    fill(held.queue);
    // From here on the client holds them.
    drop(locks);
    counter::prepare(region)?;
    let data = Arc::new(data);
    let handled = data.clone();
    let (services, _home) = handlers
        .on(RUN, move |[operation, locking, ..]| {
            let result = run(operation, locking, &handled).unwrap_or(u64::MAX);
            [result, 0, 0, 0, 0, 0]
        })
        .on(COUNT, |_| [counter::one_more(), 0, 0, 0, 0, 0])
        .on(NOTHING, |_| [0; 6])
        .start();
    let home = KernelHome { region, data, held, busy: Arc::default() };
    let server = services.export(server, INTERRUPTS);
    let server = lines::export(server)?.export(CALLS, KernelCalls::serve(home));
    Ok(server.run()?)
}

/// What the client has of the home.
pub(super) struct KernelConnection {
    pub(super) region: &'static KernelRegion,
    pub(super) calls: KernelCallsClient,
    pub(super) invoker: HomeInvoker,
}

impl KernelConnection {
    pub(super) fn import() -> Result<Self, BenchError> {
        let calls = KernelCallsClient::import_within(CALLS, APPEAR)?;
        let region: &'static Region<KernelRegion> =
            Box::leak(Box::new(Region::import_within(REGION, APPEAR)?));
        let invoker = HomeInvoker::connect_within(INTERRUPTS, APPEAR)?;
        Ok(Self { region, calls, invoker })
    }
}
