//! Whether several activations contend for a channel.

use super::ClientEnd;
use crate::call::desk::desk;
use underpass_os::cpu;
use underpass_seam::atomic::{AtomicU32, Ordering};

/// In so many calls ..
const CALLS: u32 = 1024;
/// .. another activation, on another CPU and with calls of the one before under way, came so often:
/// a channel more pays, which costs about as much as some thousand calls.
const TURNS: u32 = 64;

/// Who has called lately, of those that have no right to enter the channel plainly.
///
/// Written by such callers, each as it likes: to lose a count does no harm.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    /// The desk of the last one, plus one.
    last: AtomicU32,
    /// The CPU on which that one came, and the desk of the one before.
    cpu: AtomicU32,
    before: AtomicU32,
    calls: AtomicU32,
    turns: AtomicU32,
}

// Relaxed throughout: statistics.
impl Crowd {
    /// A call by `desk`; `others` says whether more calls are under way. Gives the desk with which
    /// it contends, if so.
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

    /// Begins anew.
    pub(super) fn reset(&self) {
        self.turns.store(0, Ordering::Relaxed);
        self.calls.store(0, Ordering::Relaxed);
    }
}

impl ClientEnd {
    /// A call was posted by one who has not the right to enter plainly.
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

    /// Calls by turns of so many desks, each on `cpu` of its own number; how many until there is a
    /// crowd.
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
