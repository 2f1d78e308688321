//! The lock of a mutex, without its value.

use crate::bias::Bias;
use crate::holder::{self, FREE_BITS};
use crate::queue_wait::QueueWait;
use crate::runtime::{WaitLimit, Woken, const_fn, me, wake};
use crate::wait_queue::{ListEnd, Verdict, WaitQueue};
use underpass_seam::atomic::{AtomicUsize, Ordering};
use underpass_seam::spin_hint;

/// In `word`: somebody has it; the rest of the word says who.
const LOCKED: usize = 1;
/// In `word`: somebody may wait, so who releases it looks.
const WAITED: usize = 2;
/// In `word`: nobody touches it but the kernel thread that has the right, plainly, or who withdraws
/// that. Never with `WAITED`.
const BIASED: usize = 4;
const BITS: usize = LOCKED | WAITED | BIASED;
const _: () = assert!(FREE_BITS & BITS == BITS);

/// So often others may get in ahead of a waiter that was woken for the lock; then it is handed
/// over.
const HANDOVER_AFTER: u32 = 4;
/// Looks at a lock that another has before it is waited for: somebody on another processor may
/// release it at any moment. Loom looks at all moments anyhow.
const LOOKS: u32 = if cfg!(underpass_loom) { 0 } else { 20 };

/// A lock, taken by one compare-and-exchange and released by one swap; or plainly, by the kernel
/// thread that has the right.
///
/// | field | who writes it |
/// |---|---|
/// | `word` | anybody; while it says `BIASED`, as is said there |
/// | `bias` | its "inside by the lock's word" is: to have the lock, while `word` does not say `BIASED`; or to be inside `waiters`, while it does |
/// | `waiters` | see there; `WAITED` is set only with it locked |
pub(crate) struct RawMutex {
    word: AtomicUsize,
    bias: Bias,
    waiters: WaitQueue<(), MutexWaiter, 1>,
}

/// What a waiter and who wakes it tell each other.
struct MutexWaiter {
    /// So often others were faster.
    passed: u32,
    /// Who waits, as `word` will say it.
    mark: usize,
    /// The lock is the waiter's already.
    handed: bool,
}

impl RawMutex {
    const_fn! {
        pub(crate) fn new() -> RawMutex {
            RawMutex { word: AtomicUsize::new(0), bias: Bias::new(), waiters: WaitQueue::new(()) }
        }
    }

    #[inline(always)]
    pub(crate) fn acquire(&self, limit: WaitLimit) -> bool {
        let mark = holder::mark() | LOCKED;
        self.acquire_biased(mark)
            // SYNC with `word` swap in `release_by_word`: what the last holder did.
            || self.word.compare_exchange(0, mark, Ordering::Acquire, Ordering::Relaxed).is_ok()
            || self.acquire_slow(mark, limit)
    }

    #[inline(always)]
    fn acquire_biased(&self, mark: usize) -> bool {
        let Some(_inside) = self.bias.enter() else { return false };
        // Relaxed: the last holder was on this kernel thread, or came by the word and granted the
        // right here.
        let free = self.word.load(Ordering::Relaxed) == BIASED;
        if free {
            // SYNC with `word` load in `unbias`: see `Bias::grant`.
            self.word.store(BIASED | mark, Ordering::Release);
        }
        free
    }

    #[inline(always)]
    pub(crate) fn release(&self) {
        if !self.release_biased() {
            self.release_by_word();
        }
    }

    #[inline(always)]
    fn release_biased(&self) -> bool {
        let Some(_inside) = self.bias.enter() else { return false };
        // Relaxed: as in `acquire_biased`.
        let biased = self.word.load(Ordering::Relaxed) & BIASED != 0;
        if biased {
            // SYNC with `word` load in `unbias`: what we did.
            self.word.store(BIASED, Ordering::Release);
        }
        biased
    }

    #[inline]
    fn release_by_word(&self) {
        // SYNC with `word` fetch_and in `unbias`: who withdrew the right while we had the lock has
        // written who is counted. `BIASED` isn't set from here on.
        if self.word.load(Ordering::Acquire) & BIASED != 0 {
            // The thread has moved, or the right is being withdrawn.
            let _inside = self.waiters.lock();
            self.unbias();
        }
        if self.bias.count_use() && self.grant() {
            return;
        }
        // SYNC with `word` compare_exchange in `acquire`, `try_acquire` and `hand_over`: what we
        // did.
        if self.word.swap(0, Ordering::Release) & WAITED != 0 {
            self.wake_one();
        }
    }

    /// Releases it and gives the caller's kernel thread the right to it, unless somebody waits.
    #[cold]
    fn grant(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        if word & WAITED != 0 {
            return false;
        }
        self.bias.grant();
        // SYNC with `word` load in `unbias`: that the right was granted, and what we did.
        let granted = self.word.compare_exchange(word, BIASED, Ordering::Release, Ordering::Relaxed).is_ok();
        if !granted {
            self.bias.take_back();
        }
        granted
    }

    /// Withdraws the right, if somebody has it, by who is inside `waiters`. Unless there is
    /// `WAITED`, who has the lock may grant it again.
    #[cold]
    fn unbias(&self) {
        // SYNC with `word` compare_exchange in `grant`: that it was granted; and with the plain
        // stores: what their threads did.
        if self.word.load(Ordering::Acquire) & BIASED != 0 {
            self.bias.revoke();
            // SYNC with `word` in `acquire` and `try_acquire`: what was done by those who had it
            // plainly.
            self.word.fetch_and(!BIASED, Ordering::AcqRel);
        }
    }

    /// The number of the thread that has it, if it can be told.
    pub(crate) fn holder(&self) -> Option<u64> {
        // Relaxed: for people, and for guesses that are checked.
        let word = self.word.load(Ordering::Relaxed);
        holder::number(if word & LOCKED == 0 { 0 } else { word & !BITS })
    }

    /// Takes it if it is free and not biased, leaving the bit `WAITED` as it is.
    fn try_acquire(&self, mark: usize) -> bool {
        // Relaxed: a guess.
        let mut word = self.word.load(Ordering::Relaxed);
        while word & (LOCKED | BIASED) == 0 {
            // SYNC with `word` swap in `release_by_word` and fetch_and in `unbias`: what the last
            // holder did.
            match self.word.compare_exchange(word, word | mark, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
        false
    }

    /// Sets `WAITED`, if the lock is not free or `always`; `false` if not. The caller is inside
    /// `waiters`.
    fn announce(&self, always: bool) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & BIASED != 0 {
                self.unbias();
                word = self.word.load(Ordering::Relaxed);
                continue;
            }
            if word & LOCKED == 0 && !always {
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
    fn acquire_slow(&self, mark: usize, limit: WaitLimit) -> bool {
        // Relaxed: a guess.
        if self.word.load(Ordering::Relaxed) & (LOCKED | BIASED) == BIASED {
            let _inside = self.waiters.lock();
            self.unbias();
        }
        if self.try_acquire(mark) {
            return true;
        }
        if limit == WaitLimit::None {
            return false;
        }
        for _ in 0..LOOKS {
            spin_hint();
            // Relaxed: a guess. Who finds others waiting waits too.
            match self.word.load(Ordering::Relaxed) & BITS {
                LOCKED => {}
                0 if self.try_acquire(mark) => return true,
                _ => break,
            }
        }
        self.wait(mark, limit)
    }

    fn wait(&self, mark: usize, limit: WaitLimit) -> bool {
        let me = me();
        let mut passed = 0;
        loop {
            let held = self.waiters.lock();
            // Inside, so that who finds the bit finds the waiter too.
            if self.announce(false) {
                // Woken, but not soon enough: it keeps its place.
                let place = if passed == 0 { ListEnd::Back } else { ListEnd::Front };
                let turn = MutexWaiter { passed, mark, handed: false };
                let (woken, turn) = held.enlist(me, 0, place, turn, |entry| {
                    let holder = || self.holder();
                    QueueWait::new(entry, "a mutex", self, &holder).suspend(me, limit, false)
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
            if turn.passed >= HANDOVER_AFTER {
                turn.handed = self.hand_over(turn.mark);
                // Else somebody was faster still, and looks here when it releases the lock.
                return if turn.handed { Verdict::Take(()) } else { Verdict::Stop };
            }
            Verdict::Take(())
        });
        if woken.is_some() && !held.is_empty(0) {
            self.announce(true);
        }
        drop(held);
        if let Some((who, ())) = woken {
            wake(who);
        }
    }

    /// Takes it for a waiter, or makes sure that who has it will look for waiters.
    fn hand_over(&self, mark: usize) -> bool {
        loop {
            if self.try_acquire(mark) {
                return true;
            }
            if self.announce(false) {
                return false;
            }
        }
    }
}
