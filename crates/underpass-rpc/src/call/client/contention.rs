//! Detects that several activations contend for a channel.

use super::ClientEnd;
use crate::call::thread_index::thread_index;
use underpass_os::cpu;
use underpass_seam::atomic::{AtomicU32, Ordering};

/// The number of calls over which contended ones are counted.
const CALLS: u32 = 1024;
/// Contended calls among these from which on another channel pays: it costs about as much as some
/// thousand calls. A call is contended if it comes from another activation than the last one and on
/// another CPU, while other calls are under way.
const TURNS: u32 = 64;

/// The last callers among those that may not enter the channel plainly.
///
/// Such callers write it without synchronization: a lost count does no harm.
#[derive(Debug, Default)]
pub(super) struct Contention {
    /// The thread index of the last caller, plus one.
    last: AtomicU32,
    /// The CPU on which that one called, and the thread index of the caller before, plus one.
    cpu: AtomicU32,
    before: AtomicU32,
    calls: AtomicU32,
    turns: AtomicU32,
}

// Relaxed throughout: statistics.
impl Contention {
    /// Counts a call by thread `thread_index`; `others` says whether more calls are under way. If
    /// the channel is contended, returns the thread index of the other caller.
    fn note(
        &self,
        thread_index: u32,
        cpu: impl FnOnce() -> u32,
        others: impl FnOnce() -> bool,
    ) -> Option<u32> {
        let last = self.last.load(Ordering::Relaxed);
        if last != thread_index + 1 {
            let cpu = cpu();
            let moved = self.cpu.swap(cpu, Ordering::Relaxed) != cpu;
            self.last.store(thread_index + 1, Ordering::Relaxed);
            self.before.store(last, Ordering::Relaxed);
            if last != 0 && moved && others() {
                self.turns.fetch_add(1, Ordering::Relaxed);
            }
        }
        let contended = self.turns.load(Ordering::Relaxed) >= TURNS;
        if contended || self.calls.fetch_add(1, Ordering::Relaxed) >= CALLS {
            self.reset();
        }
        let before = self.before.load(Ordering::Relaxed);
        (contended && before != 0).then(|| before - 1)
    }

    /// Restarts the count.
    pub(super) fn reset(&self) {
        self.turns.store(0, Ordering::Relaxed);
        self.calls.store(0, Ordering::Relaxed);
    }
}

impl ClientEnd {
    /// A call was posted by a thread that may not enter the channel plainly.
    #[cold]
    #[inline(never)]
    pub(super) fn contended(&self) {
        let (thread_index, others) = (thread_index(), || self.slots.leased() > 1);
        let Some(other) = self.contention.note(thread_index as u32, || cpu::current() as u32, others) else {
            return;
        };
        match &self.shared.first {
            None => self.relieve(thread_index, other as usize),
            Some(first) => {
                first.upgrade().into_iter().for_each(|first| first.relieve(thread_index, other as usize))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls by `threads` threads in turn, each on `cpu` of its own number. Returns how many calls
    /// it takes until the channel counts as contended.
    fn until_contended(threads: u32, cpu: impl Fn(u32) -> u32, others: bool) -> Option<u32> {
        let contention = Contention::default();
        (0..10 * CALLS).find(|n| contention.note(n % threads, || cpu(n % threads), || others).is_some())
    }

    #[test]
    fn contention_is_concurrent_calls_on_several_cpus() {
        assert_eq!(until_contended(2, |thread_index| thread_index, true), Some(TURNS));
        assert_eq!(until_contended(1, |thread_index| thread_index, true), None, "one alone");
        assert_eq!(until_contended(2, |_| 0, true), None, "on one CPU");
        assert_eq!(until_contended(2, |thread_index| thread_index, false), None, "one after the other");
    }

    #[test]
    fn rare_calls_by_a_second_thread_are_no_contention() {
        let contention = Contention::default();
        let rare = |n: u32| u32::from(n.is_multiple_of(CALLS));
        assert!((0..100 * CALLS).all(|n| contention.note(rare(n), || rare(n), || true).is_none()));
    }
}
