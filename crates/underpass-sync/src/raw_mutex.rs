//! The lock of a mutex, without its value.

use crate::bias::Bias;
use crate::holder::{self, FREE_BITS};
use crate::queue_wait::QueueWait;
use crate::runtime::{WaitLimit, Woken, const_fn, me, wake};
use crate::wait_queue::{ListEnd, Verdict, WaitQueue};
use underpass_seam::atomic::{AtomicUsize, Ordering};
use underpass_seam::spin_hint;

/// In `word`: a thread holds the lock. The rest of the word is its mark.
const LOCKED: usize = 1;
/// In `word`: there may be waiters, so the thread that releases the lock looks for them.
const WAITED: usize = 2;
/// In `word`: the lock is biased. Only the owner changes the word, and the thread that revokes the
/// bias. Never set together with `WAITED`.
const BIASED: usize = 4;
const BITS: usize = LOCKED | WAITED | BIASED;
const _: () = assert!(FREE_BITS & BITS == BITS);

/// How often others may overtake a waiter that was woken for the lock. After that the lock is
/// handed over to it.
const HANDOVER_AFTER: u32 = 4;
/// How often a thread reads a held lock before it waits: its holder may run on another processor,
/// and release it at any moment. In models there is no need, since loom tries all moments.
const LOOKS: u32 = if cfg!(underpass_loom) { 0 } else { 20 };

/// How a thread waits for the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    /// What the lock is called in dumps.
    pub(crate) kind: &'static str,
    pub(crate) limit: WaitLimit,
    pub(crate) ended: EndedBy,
}

/// What ends a wait, besides its success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndedBy {
    /// The limit alone.
    Limit,
    /// Whatever ends the calls of the thread.
    CallsEnd,
}

/// A lock that is taken by one compare-and-exchange and released by one swap. If it is biased, its
/// owner takes and releases it without locked instructions.
///
/// | field | written by |
/// |---|---|
/// | `word` | any thread; while it says `BIASED`, as that constant says |
/// | `bias` | the thread that has entered by the lock word. While `word` does not say `BIASED` that is the holder of the lock; else the thread inside `waiters` |
/// | `waiters` | see there; `WAITED` is set only with it locked |
pub(crate) struct RawMutex {
    word: AtomicUsize,
    bias: Bias,
    waiters: WaitQueue<(), MutexWaiter, 1>,
}

/// What a waiter and its waker tell each other.
struct MutexWaiter {
    /// How often others overtook it.
    passed: u32,
    /// The waiter's mark for `word`.
    mark: usize,
    /// The waiter holds the lock already.
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
        self.acquire_free(mark) || self.acquire_slow(mark, limit)
    }

    /// Takes the lock, if it is free, or becomes free soon.
    #[inline(always)]
    pub(crate) fn acquire_soon(&self) -> bool {
        let mark = holder::mark() | LOCKED;
        self.acquire_free(mark) || self.look(mark, true)
    }

    /// Waits for the lock, as `waits` says.
    pub(crate) fn acquire_late(&self, waits: Waits) -> Woken {
        self.wait(holder::mark() | LOCKED, waits)
    }

    #[inline(always)]
    fn acquire_free(&self, mark: usize) -> bool {
        self.acquire_biased(mark)
            // SYNC with `word` swap in `release_by_word`: what the last holder did.
            || self.word.compare_exchange(0, mark, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline(always)]
    fn acquire_biased(&self, mark: usize) -> bool {
        let Some(_inside) = self.bias.enter() else { return false };
        // Relaxed: the last holder was on this kernel thread; or it took the lock by the word and
        // granted the bias here.
        let free = self.word.load(Ordering::Relaxed) == BIASED;
        if free {
            // SYNC with `word` load in `revoke_bias`: see `Bias::grant`.
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
            // SYNC with `word` load in `revoke_bias`: what we did.
            self.word.store(BIASED, Ordering::Release);
        }
        biased
    }

    #[inline]
    fn release_by_word(&self) {
        // SYNC with `word` fetch_and in `revoke_bias`: a thread that revoked the bias while we held
        // the lock has written `last_user`. `BIASED` isn't set from here on.
        if self.word.load(Ordering::Acquire) & BIASED != 0 {
            // The thread has moved to another kernel thread, or the bias is being revoked.
            let _inside = self.waiters.lock();
            self.revoke_bias();
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

    /// Releases the lock and makes the caller's kernel thread its owner, unless a thread waits.
    #[cold]
    fn grant(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        if word & WAITED != 0 {
            return false;
        }
        self.bias.grant();
        // SYNC with `word` load in `revoke_bias`: the grant, and what we did.
        let granted = self.word.compare_exchange(word, BIASED, Ordering::Release, Ordering::Relaxed).is_ok();
        if !granted {
            self.bias.take_back();
        }
        granted
    }

    /// Revokes the bias, if there is one. The caller is inside `waiters`. Unless `WAITED` is set,
    /// the holder may grant the bias again.
    #[cold]
    fn revoke_bias(&self) {
        // SYNC with `word` compare_exchange in `grant`: the grant. SYNC with the stores of the
        // owner: what its threads did.
        if self.word.load(Ordering::Acquire) & BIASED != 0 {
            self.bias.revoke();
            // SYNC with `word` in `acquire` and `try_acquire`: what the threads did that held it by
            // the bias.
            self.word.fetch_and(!BIASED, Ordering::AcqRel);
        }
    }

    /// The number of the thread that holds it, if that can be told.
    pub(crate) fn holder(&self) -> Option<u64> {
        // Relaxed: it is for people, and for guesses that are checked.
        let word = self.word.load(Ordering::Relaxed);
        holder::number(if word & LOCKED == 0 { 0 } else { word & !BITS })
    }

    /// Takes the lock if it is free and not biased. Leaves the bit `WAITED` as it is.
    fn try_acquire(&self, mark: usize) -> bool {
        // Relaxed: a guess.
        let mut word = self.word.load(Ordering::Relaxed);
        while word & (LOCKED | BIASED) == 0 {
            // SYNC with `word` swap in `release_by_word` and fetch_and in `revoke_bias`: what the
            // last holder did.
            match self.word.compare_exchange(word, word | mark, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
        false
    }

    /// Sets `WAITED` if the lock is held, or if `always`. Returns whether it did. The caller is
    /// inside `waiters`.
    fn announce(&self, always: bool) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & BIASED != 0 {
                self.revoke_bias();
                word = self.word.load(Ordering::Relaxed);
                continue;
            }
            if word & LOCKED == 0 && !always {
                return false;
            }
            // Relaxed: a thread that sees the bit enters `waiters`, which synchronizes.
            match self.word.compare_exchange(word, word | WAITED, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
    }

    #[cold]
    fn acquire_slow(&self, mark: usize, limit: WaitLimit) -> bool {
        let may_wait = limit != WaitLimit::None;
        let waits = Waits { kind: "a mutex", limit, ended: EndedBy::Limit };
        self.look(mark, may_wait) || may_wait && self.wait(mark, waits) == Woken::Woken
    }

    /// Takes the lock if it is free. If not, looks a few times more, if the caller `may_wait`.
    #[cold]
    fn look(&self, mark: usize, may_wait: bool) -> bool {
        // Relaxed: a guess.
        if self.word.load(Ordering::Relaxed) & (LOCKED | BIASED) == BIASED {
            let _inside = self.waiters.lock();
            self.revoke_bias();
        }
        if self.try_acquire(mark) {
            return true;
        }
        if !may_wait {
            return false;
        }
        for _ in 0..LOOKS {
            spin_hint();
            // Relaxed: a guess. If others wait already, this thread waits too.
            match self.word.load(Ordering::Relaxed) & BITS {
                LOCKED => {}
                0 if self.try_acquire(mark) => return true,
                _ => break,
            }
        }
        false
    }

    /// Waits for the lock. [`Woken::Woken`]: the caller has it.
    fn wait(&self, mark: usize, waits: Waits) -> Woken {
        let me = me();
        let mut passed = 0;
        loop {
            let held = self.waiters.lock();
            // Inside `waiters`, so that a thread that finds the bit finds the waiter too.
            if self.announce(false) {
                // After a wake-up that came too late, the waiter keeps its place.
                let place = if passed == 0 { ListEnd::Back } else { ListEnd::Front };
                let waiter = MutexWaiter { passed, mark, handed: false };
                let (woken, waiter) = held.enlist(me, 0, place, waiter, |entry| {
                    let holder = || self.holder();
                    let wait = QueueWait::new(entry, waits.kind, self, &holder);
                    match waits.ended {
                        EndedBy::Limit => wait.suspend(me, waits.limit, false),
                        EndedBy::CallsEnd => wait.suspend_as_call(me, waits.limit),
                    }
                });
                match woken {
                    Woken::Woken if waiter.handed => return Woken::Woken,
                    Woken::Woken => passed += 1,
                    Woken::Late | Woken::Cancelled => return woken,
                }
            } else {
                drop(held);
            }
            if self.try_acquire(mark) {
                return Woken::Woken;
            }
        }
    }

    /// After a release that found `WAITED`: wakes the thread that has waited longest, or hands the
    /// lock over to it.
    #[cold]
    fn wake_one(&self) {
        let mut held = self.waiters.lock();
        let woken = held.take(0, |_, _, waiter| {
            if waiter.passed >= HANDOVER_AFTER {
                waiter.handed = self.hand_over(waiter.mark);
                // If another thread was faster even now, it looks for waiters when it releases the
                // lock.
                return if waiter.handed { Verdict::Take(()) } else { Verdict::Stop };
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

    /// Takes the lock for a waiter. If another thread has it, makes sure that this one will look
    /// for waiters.
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
