//! The word of a hybrid lock: the steps L2 to L6, R1, U1 and D1 of `README.md`. Nothing here waits.

use underpass_seam::atomic::{AtomicU64, Ordering};

/// An owner died or panicked, and nobody has repaired the data since.
const BROKEN: u64 = 1;
/// Nobody will repair the data.
const POISONED: u64 = 1 << 1;
/// One thread of the home that urgently needs the lock.
const URGENT: u64 = 1 << 16;
/// All of them.
const URGENT_ALL: u64 = 0xffff << 16;
/// Where the owner's number is. 0 is nobody.
const OWNER_AT: u32 = 32;
const OWNER: u64 = 0xffff_ffff << OWNER_AT;

/// The home's own number.
pub(crate) const HOME: u32 = 1;

/// How often an exchange is tried that others make fail.
const TRIES: usize = 1024;

fn owner(word: u64) -> u32 {
    (word >> OWNER_AT) as u32
}

/// The word, if `owner` takes the lock.
fn taken_by(owner: u32, word: u64) -> u64 {
    word & !OWNER | u64::from(owner) << OWNER_AT
}

/// What a thread that took the lock finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundData {
    /// The data are as the last owner left them.
    Whole,
    /// The last owner died, or panicked.
    Broken,
}

/// How an owner leaves the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeftData {
    /// Whole, or repaired.
    Whole,
    /// To be repaired by the next owner.
    Broken,
    /// For good.
    Poisoned,
}

/// What came of one look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HybridLook {
    /// The caller has the lock.
    Got(FoundData),
    /// Another one has it, or the home urgently needs it.
    Busy,
    /// The data were given up.
    Poisoned,
}

/// The word of a lock.
#[derive(Clone, Copy)]
pub(crate) struct HybridWord<'a>(pub(crate) &'a AtomicU64);

impl HybridWord<'_> {
    /// Exchanges the word for what `next` makes of it, while that is something.
    fn exchange(self, success: Ordering, next: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        // Relaxed: the exchange decides.
        let mut now = self.0.load(Ordering::Relaxed);
        for _ in 0..TRIES {
            let next = next(now)?;
            match self.0.compare_exchange_weak(now, next, success, Ordering::Relaxed) {
                Ok(_) => return Some(now),
                Err(found) => now = found,
            }
        }
        None
    }

    fn take(self, next: impl Fn(u64) -> Option<u64>) -> HybridLook {
        // SYNC with the exchange in `release` and in `free_from`: the data.
        match self.exchange(Ordering::Acquire, next) {
            Some(before) if before & BROKEN != 0 => HybridLook::Got(FoundData::Broken),
            Some(_) => HybridLook::Got(FoundData::Whole),
            None if self.is_poisoned() => HybridLook::Poisoned,
            None => HybridLook::Busy,
        }
    }

    /// R1: takes the lock for the remote `me`, unless the home urgently needs it.
    #[inline]
    pub(crate) fn try_remote(self, me: u32) -> HybridLook {
        self.take(|now| (now & (OWNER | URGENT_ALL | POISONED) == 0).then(|| taken_by(me, now)))
    }

    /// L2, or L4 if the caller is `urgent`: takes the lock for the home.
    #[inline]
    pub(crate) fn try_home(self, urgent: bool) -> HybridLook {
        self.take(|now| {
            let now = if urgent { less_urgent(now) } else { now };
            (now & (OWNER | POISONED) == 0).then(|| taken_by(HOME, now))
        })
    }

    /// L3. Returns whether the caller is counted. It is not if the count is full: then others
    /// keep remotes away.
    pub(crate) fn urge(self) -> bool {
        // Relaxed: it orders nothing. That remotes find it in the word is all.
        self.exchange(Ordering::Relaxed, |now| (now & URGENT_ALL != URGENT_ALL).then(|| now + URGENT))
            .is_some()
    }

    /// L6, for a caller that is counted.
    pub(crate) fn calm(self) {
        // Relaxed: as in `urge`.
        self.exchange(Ordering::Relaxed, |now| Some(less_urgent(now)));
    }

    /// U1: releases the lock, if it is still that of `me`.
    #[inline]
    pub(crate) fn release(self, me: u32, left: LeftData) {
        let set = match left {
            LeftData::Whole => 0,
            LeftData::Broken => BROKEN,
            LeftData::Poisoned => POISONED,
        };
        // SYNC with the exchange in `take`: the data.
        self.exchange(Ordering::Release, |now| (owner(now) == me).then_some(now & !(OWNER | BROKEN) | set));
    }

    /// D1: frees the lock if it is that of `dead`. Its next owner finds it broken.
    pub(crate) fn free_from(self, dead: u32) {
        // SYNC with the exchange in `take`: the data. The kernel, which told of the death, orders
        // what the dead domain wrote before.
        self.exchange(Ordering::Release, |now| (owner(now) == dead).then_some(now & !OWNER | BROKEN));
    }

    /// Whether the data were given up.
    pub(crate) fn is_poisoned(self) -> bool {
        // Relaxed: it says why, after the fact.
        self.0.load(Ordering::Relaxed) & POISONED != 0
    }
}

/// One thread less needs the lock urgently. A hostile remote may have written any count.
fn less_urgent(word: u64) -> u64 {
    if word & URGENT_ALL == 0 { word } else { word - URGENT }
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;
    use HybridLook::{Busy, Got, Poisoned};

    const WHOLE: HybridLook = Got(FoundData::Whole);
    const REMOTE: u32 = 7;

    #[test]
    fn no_remote_takes_a_lock_that_is_urgently_needed() {
        let word = AtomicU64::new(0);
        let lock = HybridWord(&word);
        assert_eq!(lock.try_remote(REMOTE), WHOLE);
        assert!(lock.urge() && lock.urge());
        lock.release(REMOTE, LeftData::Whole);
        assert_eq!(lock.try_remote(REMOTE), Busy);
        assert_eq!(lock.try_home(true), WHOLE);
        lock.release(HOME, LeftData::Whole);
        assert_eq!(lock.try_remote(REMOTE), Busy, "another thread of the home needs it still");
        lock.calm();
        assert_eq!(lock.try_remote(REMOTE), WHOLE);
        assert_eq!(lock.try_home(false), Busy);
    }

    #[test]
    fn a_dead_owner_leaves_the_lock_broken_once() {
        let word = AtomicU64::new(0);
        let lock = HybridWord(&word);
        assert_eq!(lock.try_remote(REMOTE), WHOLE);
        lock.free_from(8);
        assert_eq!(lock.try_remote(8), Busy, "another one has died");
        lock.free_from(REMOTE);
        lock.free_from(REMOTE);
        assert_eq!(lock.try_remote(8), Got(FoundData::Broken));
        lock.release(REMOTE, LeftData::Whole);
        assert_eq!(lock.try_home(false), Busy, "a revoked owner's release takes nobody's lock away");
        lock.release(8, LeftData::Broken);
        assert_eq!(lock.try_home(false), Got(FoundData::Broken));
        lock.release(HOME, LeftData::Whole);
        assert_eq!(lock.try_remote(8), WHOLE);
        lock.release(8, LeftData::Poisoned);
        assert_eq!((lock.try_home(false), lock.try_remote(8)), (Poisoned, Poisoned));
    }

    #[test]
    fn the_count_of_urgent_threads_leaves_its_place_never() {
        for start in [0, URGENT_ALL, URGENT_ALL | BROKEN, u64::MAX, OWNER] {
            let word = AtomicU64::new(start);
            let lock = HybridWord(&word);
            let counted = lock.urge();
            assert_eq!(counted, start & URGENT_ALL != URGENT_ALL);
            assert_eq!(word.load(Ordering::Relaxed) & !URGENT_ALL, start & !URGENT_ALL);
            (0..3).for_each(|_| lock.calm());
            assert_eq!(word.load(Ordering::Relaxed) & !URGENT_ALL, start & !URGENT_ALL);
        }
    }
}
