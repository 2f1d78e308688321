//! Detects that several activations contend for a channel.

use super::ClientEnd;
use crate::call::desk::desk;
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
pub(super) struct Crowd {
    /// The thread index of the last caller, plus one.
    last: AtomicU32,
    /// The CPU on which that one called, and the thread index of the caller before, plus one.
    cpu: AtomicU32,
    before: AtomicU32,
    calls: AtomicU32,
    turns: AtomicU32,
}

// Relaxed throughout: statistics.
impl Crowd {
    /// Counts a call by thread `desk`; `others` says whether more calls are under way. If the
    /// channel is contended, returns the thread index of the other caller.
    fn note(&self, desk: u32, cpu: impl FnOnce() -> u32, others: impl FnOnce() -> bool) -> Option<u32> {
        let last = self.last.load(Ordering::Relaxed);
        if last != desk + 1 {
            let cpu = cpu();
            let moved = self.cpu.swap(cpu, Ordering::Relaxed) != cpu;
            self.last.store(desk + 1, Ordering::Relaxed);
            self.before.store(last, Ordering::Relaxed);
            if last != 0 && moved && others() {
                self.turns.fetch_add(1, Ordering::Relaxed);
            }
        }
        let crowded = self.turns.load(Ordering::Relaxed) >= TURNS;
        if crowded || self.calls.fetch_add(1, Ordering::Relaxed) >= CALLS {
            self.reset();
        }
        let before = self.before.load(Ordering::Relaxed);
        (crowded && before != 0).then(|| before - 1)
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
    pub(super) fn crowded(&self) {
        let (desk, others) = (desk(), || self.slots.leased() > 1);
        let Some(other) = self.crowd.note(desk as u32, || cpu::current() as u32, others) else { return };
        match &self.first {
            None => self.relieve(desk, other as usize),
            Some(first) => first.upgrade().into_iter().for_each(|first| first.relieve(desk, other as usize)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls by `desks` threads in turn, each on `cpu` of its own number. Returns how many calls it
    /// takes until the channel counts as contended.
    fn until_crowded(desks: u32, cpu: impl Fn(u32) -> u32, others: bool) -> Option<u32> {
        let crowd = Crowd::default();
        (0..10 * CALLS).find(|n| crowd.note(n % desks, || cpu(n % desks), || others).is_some())
    }

    #[test]
    fn a_crowd_is_who_calls_at_once_on_several_cpus() {
        assert_eq!(until_crowded(2, |desk| desk, true), Some(TURNS));
        assert_eq!(until_crowded(1, |desk| desk, true), None, "one alone");
        assert_eq!(until_crowded(2, |_| 0, true), None, "on one CPU");
        assert_eq!(until_crowded(2, |desk| desk, false), None, "one after the other");
    }

    #[test]
    fn who_comes_rarely_makes_no_crowd() {
        let crowd = Crowd::default();
        let rare = |n: u32| u32::from(n.is_multiple_of(CALLS));
        assert!((0..100 * CALLS).all(|n| crowd.note(rare(n), || rare(n), || true).is_none()));
    }
}
