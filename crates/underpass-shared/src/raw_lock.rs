//! The lock of a mutex, in memory that several domains share. The protocol and its proof are in
//! `README.md`.

use crate::domain::{LocalDomain, queue_of};
use crate::error::SyncError;
use crate::layout::MEMBERS;
use crate::member::MemberId;
use crate::runtime::{Woken, is_past, nap};
use underpass_os::{failpoint, fork};
use underpass_seam::atomic::Ordering;
use underpass_seam::spin_hint;

/// A domain holds the lock: the one that the word names.
const LOCKED: u64 = 1;
/// There may be waiters in the queue: the thread that releases the lock looks there.
const WAITED: u64 = 1 << 1;
/// An owner died or panicked, and nobody has repaired the data since.
const BROKEN: u64 = 1 << 2;
/// Nobody will repair the data.
const POISONED: u64 = 1 << 3;
/// What a word keeps when its lock changes hands.
const KEPT: u64 = WAITED | BROKEN | POISONED;

const INDEX_AT: u32 = 8;
const GENERATION_AT: u32 = 32;

/// How often a thread looks before it waits.
const LOOKS: usize = if cfg!(underpass_loom) { 0 } else { 20 };
/// How often an exchange is tried that others make fail.
const TRIES: usize = 1024;

fn locked_by(member: MemberId) -> u64 {
    LOCKED | (member.index as u64 & 0xff) << INDEX_AT | u64::from(member.generation) << GENERATION_AT
}

fn owner(word: u64) -> Option<MemberId> {
    let index = (word >> INDEX_AT & 0xff) as usize;
    (word & LOCKED != 0).then_some(MemberId { index, generation: (word >> GENERATION_AT) as u32 })
}

/// What a thread that took the lock finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The data are as the last owner left them.
    Whole,
    /// The last owner died, or panicked.
    Broken,
}

/// What the thread that holds the lock knows of it.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) found: Found,
}

/// How an owner leaves the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftAs {
    /// Whole, or repaired.
    Whole,
    /// To be repaired by the next owner.
    Broken,
    /// For good.
    Poisoned,
}

/// The lock whose object is at `at`.
#[derive(Clone, Copy)]
pub(crate) struct RawLock<'a> {
    domain: &'a LocalDomain,
    at: usize,
}

enum Attempt {
    Got(Held),
    /// Somebody has it. This is the word.
    Busy(u64),
    Refused(SyncError),
}

impl<'a> RawLock<'a> {
    #[inline]
    pub(crate) fn at(domain: &'a LocalDomain, at: usize) -> Self {
        Self { domain, at }
    }

    /// Takes the lock. Waits until `deadline_ns` if another thread has it.
    #[inline]
    pub(crate) fn lock(self, deadline_ns: Option<u64>) -> Result<Held, SyncError> {
        match self.attempt() {
            Attempt::Got(held) => Ok(held),
            Attempt::Refused(why) => Err(why),
            Attempt::Busy(_) => self.lock_busy(deadline_ns),
        }
    }

    /// Takes the lock if nobody has it.
    pub(crate) fn try_lock(self) -> Result<Held, SyncError> {
        match self.attempt() {
            Attempt::Got(held) => Ok(held),
            Attempt::Refused(why) => Err(why),
            Attempt::Busy(_) => Err(SyncError::WouldBlock),
        }
    }

    /// Whether the data were given up.
    pub(crate) fn is_poisoned(self) -> bool {
        // Relaxed: it says why, after the fact.
        self.domain.words.word(self.at).load(Ordering::Relaxed) & POISONED != 0
    }

    /// Whether a live domain holds the lock, and whether the data are broken.
    pub(crate) fn state(self) -> (bool, bool) {
        // SeqCst: a reader's count comes before this.
        let word = self.domain.words.word(self.at).load(Ordering::SeqCst);
        (owner(word).is_some_and(|owner| !self.domain.deaths.has(owner)), self.is_broken(word))
    }

    fn is_broken(self, word: u64) -> bool {
        word & (BROKEN | POISONED) != 0 || owner(word).is_some_and(|owner| self.domain.deaths.has(owner))
    }

    /// A1 and A2.
    #[inline]
    fn attempt(self) -> Attempt {
        let domain = self.domain;
        if domain.deaths.are_over() {
            return Attempt::Refused(SyncError::Ended);
        }
        let word = domain.words.word(self.at);
        // Relaxed: the exchange decides.
        let mut now = word.load(Ordering::Relaxed);
        for _ in 0..TRIES {
            let dead = match owner(now) {
                Some(owner) if !domain.deaths.has(owner) => break,
                Some(_) => BROKEN,
                None => 0,
            };
            if now & POISONED != 0 {
                return Attempt::Refused(SyncError::Poisoned);
            }
            failpoint!("shared-pending");
            let mine = locked_by(domain.me) | now & KEPT | dead;
            // A2: SYNC with the exchange in `unlock`: the data. SeqCst: see `member_counts.rs`.
            match word.compare_exchange_weak(now, mine, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => {
                    failpoint!("shared-locked");
                    let found = if mine & BROKEN == 0 { Found::Whole } else { Found::Broken };
                    return Attempt::Got(Held { found });
                }
                Err(found) => now = found,
            }
        }
        Attempt::Busy(now)
    }

    #[cold]
    fn lock_busy(self, deadline_ns: Option<u64>) -> Result<Held, SyncError> {
        for _ in 0..LOOKS {
            spin_hint();
            match self.attempt() {
                Attempt::Got(held) => return Ok(held),
                Attempt::Refused(why) => return Err(why),
                // Others wait already.
                Attempt::Busy(word) if word & WAITED != 0 => break,
                Attempt::Busy(_) => {}
            }
        }
        let waited = self.wait_for_it(deadline_ns);
        // R: a wake-up that this thread got and does not use is another one's.
        if waited.is_err() {
            self.wake_next();
        }
        waited
    }

    /// S1 to S6.
    fn wait_for_it(self, deadline_ns: Option<u64>) -> Result<Held, SyncError> {
        let domain = self.domain;
        // A thread that loses keeps its place in the order.
        let ticket = domain.ticket(self.at);
        loop {
            if is_past(deadline_ns) {
                return Err(SyncError::TimedOut);
            }
            let late = match domain.enroll(queue_of(self.at), ticket) {
                Some(enrolled) => {
                    let sleeps = self.announce() && !domain.deaths.are_over();
                    let woken = if sleeps {
                        enrolled.suspend("a shared lock", deadline_ns, false)
                    } else {
                        Woken::Woken
                    };
                    enrolled.leave();
                    woken == Woken::Late
                }
                None => {
                    nap(deadline_ns);
                    false
                }
            };
            failpoint!("shared-woken");
            match self.attempt() {
                Attempt::Got(held) => return Ok(held),
                Attempt::Refused(why) => return Err(why),
                Attempt::Busy(_) if late => return Err(SyncError::TimedOut),
                Attempt::Busy(_) => {}
            }
        }
    }

    /// As [`lock`](Self::lock), for a task, which looks again whenever it is told to. `waits`: it
    /// is enrolled. `None`: it is to wait, enrolled.
    #[cfg(not(underpass_loom))]
    pub(crate) fn look(self, waits: bool) -> Option<Result<Held, SyncError>> {
        for _ in 0..TRIES {
            match self.attempt() {
                Attempt::Got(held) => return Some(Ok(held)),
                Attempt::Refused(why) => return Some(Err(why)),
                Attempt::Busy(_) if !waits || self.announce() => break,
                Attempt::Busy(_) => {}
            }
        }
        None
    }

    /// Takes the lock. The task waits if another thread has it. If the future is dropped, it gives
    /// up.
    #[cfg(not(underpass_loom))]
    pub(crate) async fn lock_async(self) -> Result<Held, SyncError> {
        let pass_on = || self.wake_next();
        let mut wait = crate::task::QueuedTask::new(self.domain, self.at, pass_on);
        loop {
            if let Some(done) = self.look(wait.is_enrolled()) {
                wait.leave(done.is_ok());
                return done;
            }
            match wait.is_enrolled() {
                true => wait.told().await,
                false => wait.enroll().await,
            }
        }
    }

    /// S3: says in the word that there is a waiter, if a live domain holds the lock. Returns
    /// whether that is so.
    fn announce(self) -> bool {
        let word = self.domain.words.word(self.at);
        let mut now = word.load(Ordering::Relaxed);
        for _ in 0..TRIES {
            if owner(now).is_none_or(|owner| self.domain.deaths.has(owner)) {
                return false;
            }
            // SeqCst, and also if WAITED is set: after the bit of the queue. SYNC with the exchange
            // in `unlock`.
            match word.compare_exchange(now, now | WAITED, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(found) => now = found,
            }
        }
        false
    }

    /// U1 to U3: releases the lock, which the caller holds: `_held` shows it.
    #[inline]
    pub(crate) fn unlock(self, _held: Held, left_as: LeftAs) {
        let domain = self.domain;
        if fork::is_forked() {
            return;
        }
        let word = domain.words.word(self.at);
        let set = match left_as {
            LeftAs::Whole => 0,
            LeftAs::Broken => BROKEN,
            LeftAs::Poisoned => POISONED,
        };
        let mine = locked_by(domain.me);
        let mut now = mine;
        let mut waited = false;
        for _ in 0..TRIES {
            // U1: SYNC with the exchange in `attempt`: the data.
            match word.compare_exchange(
                now,
                now & (WAITED | POISONED) | set,
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    failpoint!("shared-unlocked");
                    waited = now & WAITED != 0 || set & POISONED != 0;
                    break;
                }
                // Another domain took this one for dead, or wrote what is not its.
                Err(found) if found & !KEPT != mine => break,
                Err(found) => now = found,
            }
        }
        if waited {
            self.wake_next();
        }
    }

    /// U2 and U3: wakes the first waiter, if the lock is free. If there is none, `WAITED` is
    /// cleared.
    #[cold]
    pub(crate) fn wake_next(self) {
        let (domain, queue) = (self.domain, queue_of(self.at));
        let word = domain.words.word(self.at);
        // SeqCst: after the caller's release.
        let now = word.load(Ordering::SeqCst);
        if owner(now).is_some_and(|owner| !domain.deaths.has(owner)) {
            // Its owner will look.
            return;
        }
        let first = domain.take_out(queue).or_else(|| {
            // SeqCst: before the second look.
            let cleared = word.compare_exchange(now, now & !WAITED, Ordering::SeqCst, Ordering::Relaxed);
            cleared.ok().and_then(|_| domain.take_out(queue))
        });
        if let Some(name) = first {
            // Others may be in the queue. Relaxed: before the wake-up, and the thread that is woken
            // takes it over.
            word.fetch_or(WAITED, Ordering::Relaxed);
            domain.wake(name);
        }
    }

    /// W2: frees the lock if its word names `dead`. Its next owner finds it broken.
    pub(crate) fn free_from(self, dead: MemberId) {
        let word = self.domain.words.word(self.at);
        let mut now = word.load(Ordering::Relaxed);
        for _ in 0..TRIES {
            if owner(now) != Some(dead) {
                return;
            }
            // SYNC with the exchange in `attempt`.
            match word.compare_exchange(now, now & KEPT | BROKEN, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return self.wake_next(),
                Err(found) => now = found,
            }
        }
    }
}

const _: () = assert!(MEMBERS <= 1 << (GENERATION_AT - INDEX_AT) && MEMBERS <= 256);
