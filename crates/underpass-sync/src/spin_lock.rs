//! A spin lock for sections of a few instructions. Beside the lock lie hints for threads that don't
//! enter.

use crate::bias::{Bias, BiasedEntry};
use crate::runtime::{CriticalSection, const_fn, critical};
use underpass_seam::atomic::{AtomicU32, Ordering};
use underpass_seam::spin_hint;

/// In `word`: a thread is inside by the word; or it will be, once the owner of the bias has left.
const LOCKED: u32 = 1;
/// How often to spin before the processor is given away. A thread stays inside for a few
/// instructions, unless its kernel thread was interrupted.
const SPINS: u32 = 64;

/// A lock that is entered by one compare-and-exchange and left by one store. If it is biased, its
/// owner enters it without locked instructions.
///
/// | field | written by |
/// |---|---|
/// | `word` | any thread, to take it by compare-and-exchange; then that thread |
/// | `hints` | the thread inside |
/// | `bias` | see there |
#[repr(C)] // The fields that each use accesses lie together.
pub struct SpinLock {
    word: AtomicU32,
    hints: AtomicU32,
    bias: Bias,
}

/// The caller is inside, and preemption is off. It leaves when this is dropped.
pub struct SpinGuard<'a> {
    spin: &'a SpinLock,
    way: Way<'a>,
}

/// By which way a thread is inside.
enum Way<'a> {
    /// By the word: then no other thread can enter.
    #[allow(dead_code)] // Dropped after `drop` has left.
    Word(CriticalSection),
    #[allow(dead_code)] // As above.
    Biased(BiasedEntry<'a>),
}

impl SpinLock {
    const_fn! {
        /// A free lock without hints.
        pub fn new() -> SpinLock {
            SpinLock { word: AtomicU32::new(0), hints: AtomicU32::new(0), bias: Bias::new() }
        }
    }

    /// Enters the lock.
    #[inline(always)]
    pub fn enter(&self) -> SpinGuard<'_> {
        let way = match self.bias.enter() {
            Some(entry) => Way::Biased(entry),
            None => self.enter_by_word(),
        };
        SpinGuard { spin: self, way }
    }

    /// Enters the lock, unless another thread is inside by the word. If the owner is inside by its
    /// bias, waits for it.
    #[inline(always)]
    pub fn try_enter(&self) -> Option<SpinGuard<'_>> {
        let way = match self.bias.enter() {
            Some(entry) => Way::Biased(entry),
            None => self.try_enter_by_word()?,
        };
        Some(SpinGuard { spin: self, way })
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

    // Not inlined, so that the drop of a `SpinGuard` is small enough to be inlined where the lock
    // is left by the bias.
    #[inline(never)]
    fn leave_by_word(&self) {
        if self.bias.count_use() {
            self.bias.grant();
        }
        // SYNC with `word` compare_exchange in `try_enter`: what was done inside.
        self.word.store(0, Ordering::Release);
    }

    /// The hints that the last thread inside has left. Relaxed: a caller that must not miss
    /// something has learned of it in a way that synchronizes.
    #[inline]
    pub fn hints(&self) -> u32 {
        self.hints.load(Ordering::Relaxed)
    }
}

impl SpinGuard<'_> {
    /// Whether the caller entered by the bias. If so, no other thread uses this lock much.
    #[inline(always)]
    pub fn is_biased(&self) -> bool {
        matches!(self.way, Way::Biased(_))
    }

    /// Leaves hints for threads that will read them.
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
