//! The parker of the monitor and of the launcher. They sleep until the next tick, or until somebody
//! unparks them.

use crate::metrics;
use std::sync::atomic::{AtomicU32, Ordering};
use underpass_os::clock;
use underpass_os::futex::{self, FutexScope, Watched};

const AWAKE: u32 = 0;
/// Sleeps until the next tick.
const TICKING: u32 = 1;
/// Sleeps until somebody unparks it.
const SLEEPING: u32 = 2;
/// Somebody has unparked it.
const UNPARKED: u32 = 3;

/// Only its sleeper sets the values other than `UNPARKED`. Anybody sets `UNPARKED`.
#[derive(Debug)]
pub(crate) struct MonitorParker {
    word: AtomicU32,
}

impl MonitorParker {
    pub(crate) const fn new() -> Self {
        Self { word: AtomicU32::new(AWAKE) }
    }

    /// Whether the sleeper wakes only when it is unparked.
    #[inline]
    pub(crate) fn dozes(&self) -> bool {
        // Relaxed: the barriers of H2 and D2 in the README order this.
        self.word.load(Ordering::Relaxed) == SLEEPING
    }

    /// Ends the sleep, or keeps the next one from beginning. Takes no lock, since signal handlers
    /// use it.
    #[cold]
    pub(crate) fn unpark(&self) {
        // SYNC with `word` compare_exchange and swap in `sleep`: what the caller did before.
        if matches!(self.word.swap(UNPARKED, Ordering::AcqRel), TICKING | SLEEPING) {
            metrics().woke();
            futex::wake(&self.word, FutexScope::Private, 1);
        }
    }

    /// Sleeps until unparked, or until `until_ns`.
    pub(crate) fn sleep_until(&self, until_ns: u64) {
        self.sleep(TICKING, Some(until_ns), || true);
    }

    /// Sleeps until unparked. It does not begin to if it was unparked already, or if `quiet`, which
    /// runs after a heavy barrier, returns `false`.
    pub(crate) fn sleep_until_unparked(&self, quiet: impl FnOnce() -> bool) {
        self.sleep(SLEEPING, None, || {
            underpass_os::barrier::heavy();
            metrics().entered_kernel(1);
            quiet()
        });
    }

    fn sleep(&self, how: u32, until_ns: Option<u64>, go: impl FnOnce() -> bool) {
        // SYNC with `word` swap in `unpark`.
        let free = self.word.compare_exchange(AWAKE, how, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if free && go() {
            // Relaxed: the swap below synchronizes.
            while self.word.load(Ordering::Relaxed) == how
                && until_ns.is_none_or(|until| clock::now_ns() < until)
            {
                metrics().slept();
                futex::wait(
                    Watched { word: &self.word, expected: how, scope: FutexScope::Private },
                    until_ns,
                );
            }
        }
        // SYNC with `word` swap in `unpark`.
        self.word.swap(AWAKE, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn an_unpark_before_the_sleep_is_not_lost() {
        let parker = MonitorParker::new();
        parker.unpark();
        parker.sleep_until_unparked(|| true);
        parker.unpark();
        parker.sleep_until(u64::MAX);
    }

    #[test]
    fn a_timed_sleep_ends_by_itself_and_an_untimed_one_checks_for_work_first() {
        let parker = MonitorParker::new();
        parker.sleep_until(clock::now_ns() + 1_000_000);
        parker.sleep_until_unparked(|| false);
        assert!(!parker.dozes());
    }

    #[test]
    fn an_unpark_ends_an_untimed_sleep() {
        let parker = Arc::new(MonitorParker::new());
        let other = parker.clone();
        let caller = std::thread::spawn(move || {
            while !other.dozes() {
                std::thread::yield_now();
            }
            other.unpark();
        });
        parker.sleep_until_unparked(|| true);
        caller.join().unwrap();
    }
}
