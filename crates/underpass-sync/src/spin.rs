//! A spin lock for a few instructions, or for some looks in a row by who alone uses it, beside
//! which lie some hints.

use crate::bias::{Bias, Plainly};
use crate::waiter::{CriticalSection, const_fn, critical};
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
/// | field | who writes it |
/// |---|---|
/// | `word` | who takes it by compare-and-exchange, and then this one |
/// | `hints` | who is inside |
/// | `bias` | see there |
#[repr(C)] // What each use touches lies together.
pub struct Spin {
    word: AtomicU32,
    hints: AtomicU32,
    bias: Bias,
}

/// The inside, until dropped. Preemption is held off.
pub struct Inside<'a> {
    spin: &'a Spin,
    way: Way<'a>,
}

/// By which way somebody is inside.
enum Way<'a> {
    /// By the word: others can go nowhere.
    #[allow(dead_code)] // Dropped after `drop` has left.
    Word(CriticalSection),
    #[allow(dead_code)] // Dropped.
    Plain(Plainly<'a>),
}

impl Spin {
    const_fn! {
        /// A free one, with no hints.
        pub fn new() -> Spin {
            Spin { word: AtomicU32::new(0), hints: AtomicU32::new(0), bias: Bias::new() }
        }
    }

    /// Goes inside.
    #[inline(always)]
    pub fn enter(&self) -> Inside<'_> {
        let way = match self.bias.enter() {
            Some(plainly) => Way::Plain(plainly),
            None => self.enter_by_word(),
        };
        Inside { spin: self, way }
    }

    /// Goes inside, unless somebody else is there by the word. For who is there plainly it waits.
    #[inline(always)]
    pub fn try_enter(&self) -> Option<Inside<'_>> {
        let way = match self.bias.enter() {
            Some(plainly) => Way::Plain(plainly),
            None => self.try_enter_by_word()?,
        };
        Some(Inside { spin: self, way })
    }

    /// Goes inside plainly, if the caller's kernel thread has the right to: who does may stay for
    /// longer, as nobody else comes here much.
    #[inline(always)]
    pub fn try_enter_plainly(&self) -> Option<Inside<'_>> {
        self.bias.enter().map(|plainly| Inside { spin: self, way: Way::Plain(plainly) })
    }

    #[inline]
    fn try_enter_by_word(&self) -> Option<Way<'_>> {
        // Relaxed: a guess.
        if self.word.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let critical = critical();
        self.try_take().then(|| {
            self.bias.withdraw();
            Way::Word(critical)
        })
    }

    #[inline]
    fn enter_by_word(&self) -> Way<'_> {
        let critical = critical();
        if !self.try_take() {
            self.enter_slow();
        }
        self.bias.withdraw();
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

    // Not into those who leave plainly: what drops an `Inside` is to be small enough to go into
    // them.
    #[inline(never)]
    fn leave_by_word(&self) {
        if self.bias.counts() {
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

impl Inside<'_> {
    /// Whether the caller's kernel thread is the one that has the right to enter plainly: nobody
    /// else uses this lock much, then.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        matches!(self.way, Way::Plain(_))
    }

    /// Leaves hints for those who will look.
    #[inline(always)]
    pub fn hint(&mut self, hints: u32) {
        // Relaxed: see `hints`.
        self.spin.hints.store(hints, Ordering::Relaxed);
    }
}

impl Drop for Inside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Way::Word(_) = self.way {
            self.spin.leave_by_word();
        }
    }
}

impl Default for Spin {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Spin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spin").field("hints", &self.hints()).finish_non_exhaustive()
    }
}
