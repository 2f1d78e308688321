//! The lock of a mutex, without its value.

use crate::holder::{self, FREE_BITS};
use crate::queue::{Place, Queue, Verdict};
use crate::waiter::{Patience, Woken, const_fn, me};
use crate::waiting::Waiting;
use underpass_seam::atomic::{AtomicUsize, Ordering};
use underpass_seam::spin_hint;

/// In `word`: somebody has it; the rest of the word says who.
const LOCKED: usize = 1;
/// In `word`: somebody may wait, so who releases it looks.
const WAITED: usize = 2;
const _: () = assert!(FREE_BITS & 3 == LOCKED + WAITED);

/// So often others may get in ahead of a waiter that was woken for the lock; then it is handed over.
const PATIENCE: u32 = 4;
/// Looks at a lock that another has before it is waited for: somebody on another processor may release it at any moment.
/// Loom looks at all moments anyhow.
const LOOKS: u32 = if cfg!(underpass_loom) { 0 } else { 20 };

/// A lock, taken by one compare-and-exchange and released by one swap.
///
/// | field | who writes it |
/// |---|---|
/// | `word` | anybody |
/// | `waiters` | see there; `WAITED` is set, by a waiter, only with it locked |
pub(crate) struct Lock {
    word: AtomicUsize,
    waiters: Queue<(), Turn, 1>,
}

/// What a waiter and who wakes it tell each other.
struct Turn {
    /// So often others were faster.
    passed: u32,
    /// Who waits, as `word` will say it.
    mark: usize,
    /// The lock is the waiter's already.
    handed: bool,
}

impl Lock {
    const_fn! {
        pub(crate) fn new() -> Lock {
            Lock { word: AtomicUsize::new(0), waiters: Queue::new(()) }
        }
    }

    #[inline]
    pub(crate) fn acquire(&self, patience: Patience) -> bool {
        let mark = holder::mark() | LOCKED;
        // SYNC with `word` swap in `release`: what the last holder did.
        self.word.compare_exchange(0, mark, Ordering::Acquire, Ordering::Relaxed).is_ok()
            || self.acquire_slow(mark, patience)
    }

    #[inline]
    pub(crate) fn release(&self) {
        // SYNC with `word` compare_exchange in `acquire`, `try_acquire` and `hand_over`: what we did.
        if self.word.swap(0, Ordering::Release) & WAITED != 0 {
            self.wake_one();
        }
    }

    /// The number of the thread that has it, if it can be told.
    pub(crate) fn holder(&self) -> Option<u64> {
        // Relaxed: for people, and for guesses that are checked.
        let word = self.word.load(Ordering::Relaxed);
        holder::number(if word & LOCKED == 0 { 0 } else { word & !(LOCKED | WAITED) })
    }

    /// Takes it if it is free, leaving the bit `WAITED` as it is.
    fn try_acquire(&self, mark: usize) -> bool {
        // Relaxed: a guess.
        let mut word = self.word.load(Ordering::Relaxed);
        while word & LOCKED == 0 {
            // SYNC with `word` swap in `release`: what the last holder did.
            match self.word.compare_exchange(word, word | mark, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
        false
    }

    /// Sets `WAITED`; `false` if the lock is free.
    fn announce(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & LOCKED == 0 {
                return false;
            }
            // Relaxed: whoever sees it goes inside `waiters`, which synchronizes.
            match self.word.compare_exchange(word, word | WAITED, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
    }

    #[cold]
    fn acquire_slow(&self, mark: usize, patience: Patience) -> bool {
        if self.try_acquire(mark) {
            return true;
        }
        if patience == Patience::None {
            return false;
        }
        for _ in 0..LOOKS {
            spin_hint();
            // Relaxed: a guess. Who finds others waiting waits too.
            match self.word.load(Ordering::Relaxed) & (LOCKED | WAITED) {
                LOCKED => {}
                0 if self.try_acquire(mark) => return true,
                _ => break,
            }
        }
        self.wait(mark, patience)
    }

    fn wait(&self, mark: usize, patience: Patience) -> bool {
        let me = me();
        let mut passed = 0;
        loop {
            let held = self.waiters.lock();
            // Inside, so that who finds the bit finds the waiter too.
            if self.announce() {
                // Woken, but not soon enough: it keeps its place.
                let place = if passed == 0 { Place::Back } else { Place::Front };
                let turn = Turn { passed, mark, handed: false };
                let (woken, turn) = held.enlist(me, 0, place, turn, |entry| {
                    let holder = || self.holder();
                    Waiting::new(entry, "a mutex", self, &holder).suspend(me, patience, false)
                });
                match woken {
                    Woken::Woken if turn.handed => return true,
                    Woken::Woken => passed += 1,
                    Woken::Late | Woken::Cancelled => return false,
                }
            } else {
                drop(held);
            }
            if self.try_acquire(mark) {
                return true;
            }
        }
    }

    /// After a release that found `WAITED`: sees to it that the longest waiter gets on.
    #[cold]
    fn wake_one(&self) {
        let mut held = self.waiters.lock();
        let woken = held.take(0, |_, _, turn| {
            if turn.passed >= PATIENCE {
                turn.handed = self.hand_over(turn.mark);
                // Else somebody was faster still, and looks here when it releases the lock.
                return if turn.handed { Verdict::Take(()) } else { Verdict::Stop };
            }
            Verdict::Take(())
        });
        if woken.is_some() && !held.is_empty(0) {
            // Relaxed: as in `announce`.
            self.word.fetch_or(WAITED, Ordering::Relaxed);
        }
        drop(held);
        if let Some((who, ())) = woken {
            who.wake();
        }
    }

    /// Takes it for a waiter, or makes sure that who has it will look for waiters.
    fn hand_over(&self, mark: usize) -> bool {
        loop {
            if self.try_acquire(mark) {
                return true;
            }
            if self.announce() {
                return false;
            }
        }
    }
}
