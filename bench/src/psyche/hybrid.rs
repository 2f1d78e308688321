//! The data of Table 1 under hybrid locks (Psyche, Figure 1): one for each part.

use super::kernel::{APPEAR, failed};
use super::operations::{KernelData, KernelOperation, PART, PARTS, QUEUE, fill};
use crate::BenchError;
use crate::raw::region_words::hybrid_words;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use underpass::Server;
use underpass::homed::invoke::InvocationHandlers;
use underpass::homed::lock::{HybridHome, HybridLockResult, HybridObject};
use underpass::shared::Shareable;

/// Longer than any wait for a lock.
const WITHIN: Duration = Duration::from_secs(10);

/// A lock and its data, as one side has them.
enum HybridSide<T: Shareable> {
    Home(HybridHome<T>),
    Elsewhere(HybridObject<T>),
}

impl<T: Shareable> HybridSide<T> {
    fn lock(&self) -> HybridLockResult<'_, T> {
        match self {
            Self::Home(home) => home.lock(WITHIN),
            Self::Elsewhere(object) => object.lock(WITHIN),
        }
    }
}

/// A part that lasts to the end of the process.
struct HybridPart<const N: usize> {
    lock: &'static HybridSide<[u64; N]>,
    words: &'static [AtomicU64; N],
}

impl<const N: usize> HybridPart<N> {
    fn of(side: HybridSide<[u64; N]>) -> Result<Self, BenchError> {
        let lock: &'static HybridSide<_> = Box::leak(Box::new(side));
        let words = hybrid_words(&lock.lock().map_err(failed)?);
        Ok(Self { lock, words })
    }

    fn locked(&self, work: impl FnOnce(&[AtomicU64]) -> u64) -> Result<u64, BenchError> {
        let _guard = self.lock.lock().map_err(failed)?;
        Ok(work(self.words))
    }
}

/// Data under a hybrid lock for each part.
pub(super) struct HybridData {
    queue: HybridPart<QUEUE>,
    parts: Vec<HybridPart<PART>>,
    counter: HybridPart<1>,
}

fn name_of(part: usize) -> String {
    format!("psyche-hybrid-{part}")
}

const OF_QUEUE: &str = "psyche-hybrid-queue";
const OF_COUNTER: &str = "psyche-hybrid-counter";

impl HybridData {
    /// The home's, which it exports.
    pub(super) fn export(
        handlers: &InvocationHandlers,
        server: Server,
    ) -> Result<(Self, Server), BenchError> {
        let (service, queue) = HybridHome::new([0; QUEUE], handlers)?;
        let (counts, counter) = HybridHome::new([0; 1], handlers)?;
        let mut server = server.export(OF_QUEUE, service).export(OF_COUNTER, counts);
        let mut parts = Vec::with_capacity(PARTS);
        for part in 0..PARTS {
            let (service, home) = HybridHome::new([0; PART], handlers)?;
            server = server.export(name_of(part), service);
            parts.push(HybridPart::of(HybridSide::Home(home))?);
        }
        let queue = HybridPart::of(HybridSide::Home(queue))?;
        fill(queue.words);
        let counter = HybridPart::of(HybridSide::Home(counter))?;
        Ok((Self { queue, parts, counter }, server))
    }

    /// The other domain's.
    pub(super) fn import() -> Result<Self, BenchError> {
        let queue = HybridSide::Elsewhere(HybridObject::import_within(OF_QUEUE, APPEAR)?);
        let parts = (0..PARTS).map(|part| {
            HybridPart::of(HybridSide::Elsewhere(HybridObject::import_within(&name_of(part), APPEAR)?))
        });
        let counter = HybridSide::Elsewhere(HybridObject::import_within(OF_COUNTER, APPEAR)?);
        let parts = parts.collect::<Result<_, _>>()?;
        Ok(Self { parts, queue: HybridPart::of(queue)?, counter: HybridPart::of(counter)? })
    }

    /// Counts the counter up.
    pub(super) fn count(&self) -> Result<u64, BenchError> {
        self.counter.locked(|words| {
            // Relaxed: the lock orders it.
            let counted = words[0].load(Ordering::Relaxed) + 1;
            words[0].store(counted, Ordering::Relaxed);
            counted
        })
    }

    /// Writes all lines that the operation uses.
    pub(super) fn touch(&self, operation: KernelOperation) {
        let parts: Vec<&[AtomicU64]> = self.parts.iter().map(|part| &part.words[..]).collect();
        operation.touch(self.queue.words, &parts);
    }
}

impl KernelData for HybridData {
    fn queue(&self, work: impl FnOnce(&[AtomicU64]) -> u64) -> Result<u64, BenchError> {
        self.queue.locked(work)
    }

    fn part(&self, part: usize, work: impl FnOnce(&[AtomicU64]) -> u64) -> Result<u64, BenchError> {
        self.parts[part].locked(work)
    }
}
