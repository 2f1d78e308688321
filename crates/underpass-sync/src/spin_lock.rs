//! A spin lock for a few instructions, or for some looks in a row by who alone uses it, beside
//! which lie some hints.

use crate::bias::{Bias, BiasedEntry};
use crate::runtime::{Critical, const_fn, critical};
use underpass_seam::atomic::{AtomicU32, Ordering};
use underpass_seam::spin_hint;

/// In `word`: somebody is inside by it, or about to be once nobody is there plainly.
const LOCKED: u32 = 1;
/// Spins before the processor is given away: whoever is inside stays for a few instructions, or
/// looks, unless its kernel thread was interrupted.
const SPINS: u32 = 64;

/// Entered by one compare-and-exchange and left by one store; or plainly, by the kernel thread that
/// has the right.
///
/// | field | written by |
/// |---|---|
/// | `word` | any thread, to take it by compare-and-exchange; then that thread |
/// | `hints` | the thread inside |
/// | `bias` | see there |
#[repr(C)] // What each use touches lies together.
pub struct SpinLock {
    word: AtomicU32,
    hints: AtomicU32,
    bias: Bias,
}

/// The inside, until dropped. Preemption is held off.
pub struct SpinGuard<'a> {
    spin: &'a SpinLock,
    way: Way<'a>,
}

/// By which way somebody is inside.
enum Way<'a> {
    /// By the word: others can go nowhere.
    #[allow(dead_code)] // Dropped after `drop` has left.
    Word(Critical),
    #[allow(dead_code)] // Dropped.
    Biased(BiasedEntry<'a>),
}

impl SpinLock {
    const_fn! {
        /// A free one, with no hints.
        pub fn new() -> SpinLock {
            SpinLock { word: AtomicU32::new(0), hints: AtomicU32::new(0), bias: Bias::new() }
        }
    }

    /// Goes inside.
    #[inline(always)]
    pub fn enter(&self) -> SpinGuard<'_> {
        let way = match self.bias.enter() {
            Some(entry) => Way::Biased(entry),
            None => self.enter_by_word(),
        };
        SpinGuard { spin: self, way }
    }

    /// Goes inside, unless somebody else is there by the word. For who is there plainly it waits.
    #[inline(always)]
    pub fn try_enter(&self) -> Option<SpinGuard<'_>> {
        let way = match self.bias.enter() {
            Some(entry) => Way::Biased(entry),
            None => self.try_enter_by_word()?,
        };
        Some(SpinGuard { spin: self, way })
    }

    /// Goes inside plainly, if the caller's kernel thread has the right to: who does may stay for
    /// longer, as nobody else comes here much.
    #[inline(always)]
    pub fn try_enter_biased(&self) -> Option<SpinGuard<'_>> {
        self.bias.enter().map(|entry| SpinGuard { spin: self, way: Way::Biased(entry) })
    }

    #[inline]
    fn try_enter_by_word(&self) -> Option<Way<'_>> {
        // Relaxed: a guess.
        if self.word.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let critical = critical();
        self.try_take().then(|| {
            self.bias.revoke();
            Way::Word(critical)
        })
    }

    #[inline]
    fn enter_by_word(&self) -> Way<'_> {
        let critical = critical();
        if !self.try_take() {
            self.enter_slow();
        }
        self.bias.revoke();
        Way::Word(critical)
    }

    #[inline]
    fn try_take(&self) -> bool {
        // SYNC with `word` store in `leave_by_word`: what was done inside.
        self.word.compare_exchange(0, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn enter_slow(&self) {
        loop {
            for _ in 0..SPINS {
                spin_hint();
                // Relaxed: a guess.
                if self.word.load(Ordering::Relaxed) == 0 && self.try_take() {
                    return;
                }
            }
            underpass_os::cpu::give_way();
        }
    }

    // Not into those who leave plainly: what drops an `SpinGuard` is to be small enough to go into
    // them.
    #[inline(never)]
    fn leave_by_word(&self) {
        if self.bias.count_use() {
            self.bias.grant();
        }
        // SYNC with `word` compare_exchange in `try_enter`: what was done inside.
        self.word.store(0, Ordering::Release);
    }

    /// What the last one left. Relaxed: who must not miss something learned of it by what
    /// synchronizes.
    #[inline]
    pub fn hints(&self) -> u32 {
        self.hints.load(Ordering::Relaxed)
    }
}

impl SpinGuard<'_> {
    /// Whether the caller's kernel thread is the one that has the right to enter plainly: nobody
    /// else uses this lock much, then.
    #[inline(always)]
    pub fn is_biased(&self) -> bool {
        matches!(self.way, Way::Biased(_))
    }

    /// Leaves hints for those who will look.
    #[inline(always)]
    pub fn hint(&mut self, hints: u32) {
        // Relaxed: see `hints`.
        self.spin.hints.store(hints, Ordering::Relaxed);
    }
}

impl Drop for SpinGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Way::Word(_) = self.way {
            self.spin.leave_by_word();
        }
    }
}

impl Default for SpinLock {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for SpinLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpinLock").field("hints", &self.hints()).finish_non_exhaustive()
    }
}
