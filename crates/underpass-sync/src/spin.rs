//! A spin lock for a few instructions, in a word that also carries hints.

use crate::waiter::const_fn;
use underpass_seam::atomic::{AtomicU32, Ordering};
use underpass_seam::spin_hint;

/// In `word`: somebody is inside.
const LOCKED: u32 = 1;
/// Spins before the processor is given away: whoever is inside stays for a few instructions, unless its kernel thread was interrupted.
const SPINS: u32 = 64;

/// Taken by one compare-and-exchange and released by one store.
///
/// `word` is changed by who takes the lock, and then by this one. All bits but the lowest are hints that the last one left.
#[derive(Debug)]
pub struct Spin {
    word: AtomicU32,
}

impl Spin {
    const_fn! {
        /// A free one, with no hints.
        pub fn new() -> Spin {
            Spin { word: AtomicU32::new(0) }
        }
    }

    /// Goes inside. The caller holds off preemption until it has left.
    #[inline]
    pub fn enter(&self) {
        if !self.try_enter() {
            self.enter_slow();
        }
    }

    #[inline]
    fn try_enter(&self) -> bool {
        // Relaxed: a guess.
        let word = self.word.load(Ordering::Relaxed);
        word & LOCKED == 0
            // SYNC with `word` store in `leave`: what was done inside.
            && self.word.compare_exchange(word, word | LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn enter_slow(&self) {
        loop {
            for _ in 0..SPINS {
                spin_hint();
                if self.try_enter() {
                    return;
                }
            }
            underpass_os::cpu::give_way();
        }
    }

    /// Leaves the inside, by who is there.
    #[inline]
    pub fn leave(&self, hints: u32) {
        // SYNC with `word` compare_exchange in `try_enter`: what was done inside.
        self.word.store(hints << 1, Ordering::Release);
    }

    /// What the last one left. Relaxed: who must not miss something learned of it by what synchronizes.
    #[inline]
    pub fn hints(&self) -> u32 {
        self.word.load(Ordering::Relaxed) >> 1
    }
}

impl Default for Spin {
    fn default() -> Self {
        Self::new()
    }
}
