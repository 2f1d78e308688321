//! Where the monitor and the steward sleep, lightly or soundly.

use crate::tally;
use std::sync::atomic::{AtomicU32, Ordering};
use underpass_os::clock;
use underpass_os::futex::{self, Scope, Watched};

const AWAKE: u32 = 0;
/// Sleeps until the next tick.
const TICKING: u32 = 1;
/// Sleeps until somebody calls.
const DOZING: u32 = 2;
/// Somebody called.
const CALLED: u32 = 3;

/// Its sleeper alone sets all but `CALLED`, which anybody does.
#[derive(Debug)]
pub(crate) struct Bell {
    word: AtomicU32,
}

impl Bell {
    pub(crate) const fn new() -> Self {
        Self { word: AtomicU32::new(AWAKE) }
    }

    /// Whether only a call wakes the sleeper.
    #[inline]
    pub(crate) fn dozes(&self) -> bool {
        // Relaxed: the barriers of H2 and D2 in the README are what counts.
        self.word.load(Ordering::Relaxed) == DOZING
    }

    /// Calls the sleeper: its sleep ends, or its next one doesn't begin. Takes no lock: handlers
    /// call.
    #[cold]
    pub(crate) fn ring(&self) {
        // SYNC with `word` compare_exchange and swap in `sleep`: what the caller did before.
        if matches!(self.word.swap(CALLED, Ordering::AcqRel), TICKING | DOZING) {
            tally().woke();
            futex::wake(&self.word, Scope::Private, 1);
        }
    }

    /// Sleeps until called or `until_ns`.
    pub(crate) fn tick(&self, until_ns: u64) {
        self.sleep(TICKING, Some(until_ns), || true);
    }

    /// Sleeps until called, unless somebody has called or `quiet` finds otherwise, which looks
    /// after a barrier.
    pub(crate) fn doze(&self, quiet: impl FnOnce() -> bool) {
        self.sleep(DOZING, None, || {
            underpass_os::barrier::heavy();
            tally().entered_kernel(1);
            quiet()
        });
    }

    fn sleep(&self, how: u32, until_ns: Option<u64>, go: impl FnOnce() -> bool) {
        // SYNC with `word` swap in `ring`.
        let free = self.word.compare_exchange(AWAKE, how, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if free && go() {
            // Relaxed: the swap below synchronizes.
            while self.word.load(Ordering::Relaxed) == how
                && until_ns.is_none_or(|until| clock::now_ns() < until)
            {
                tally().slept();
                futex::wait(Watched { word: &self.word, expected: how, scope: Scope::Private }, until_ns);
            }
        }
        // SYNC with `word` swap in `ring`.
        self.word.swap(AWAKE, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_call_before_the_sleep_is_not_lost() {
        let bell = Bell::new();
        bell.ring();
        bell.doze(|| true);
        bell.ring();
        bell.tick(u64::MAX);
    }

    #[test]
    fn a_tick_ends_by_itself_and_a_doze_that_finds_something_does_not_begin() {
        let bell = Bell::new();
        bell.tick(clock::now_ns() + 1_000_000);
        bell.doze(|| false);
        assert!(!bell.dozes());
    }

    #[test]
    fn a_call_ends_a_doze() {
        let bell = Arc::new(Bell::new());
        let other = bell.clone();
        let caller = std::thread::spawn(move || {
            while !other.dozes() {
                std::thread::yield_now();
            }
            other.ring();
        });
        bell.doze(|| true);
        caller.join().unwrap();
    }
}
