//! Which places of this domain's page name a lock that it holds, or is about to take.

use crate::layout::{self, HOLDS};
use crate::member::MemberId;
use crate::words::RegionWords;
use underpass_seam::atomic::{AtomicU64, AtomicUsize, Ordering};

const WORDS: usize = HOLDS.div_ceil(64);
/// The bits of a word that stand for places.
const PLACES: usize = if HOLDS < 64 { HOLDS } else { 64 };

/// The places of the page that are in use: private memory.
///
/// | field | written by |
/// |---|---|
/// | `used` | whoever takes or frees a place: its bit |
/// | `next` | anybody: where to look first, a hint |
#[derive(Debug)]
pub(crate) struct Holds {
    used: [AtomicU64; WORDS],
    next: AtomicUsize,
}

/// A place that names a lock.
#[derive(Debug)]
pub(crate) struct Hold(Option<usize>);

impl Holds {
    pub(crate) fn new() -> Self {
        Self { used: [(); WORDS].map(|()| AtomicU64::new(0)), next: AtomicUsize::new(0) }
    }

    /// P1: names `lock` in the page of `me`, before the caller takes the lock. If the page is full,
    /// the lock is not named: then the next domain that wants the lock finds the death of its
    /// owner by itself.
    pub(crate) fn add(&self, words: &RegionWords, me: MemberId, lock: usize) -> Hold {
        let entry = self.take();
        if let Some(entry) = entry {
            // Relaxed: before the exchange of the lock's word. SYNC with the load in
            // `LocalDomain::walk`: the kernel tells of a death after all that the dead domain
            // wrote.
            words.word(layout::hold(me.index, entry)).store(lock as u64, Ordering::Relaxed);
        }
        Hold(entry)
    }

    /// P3: the lock is not this domain's, or not any more.
    pub(crate) fn remove(&self, words: &RegionWords, me: MemberId, hold: Hold) {
        let Hold(Some(entry)) = hold else { return };
        // Release: after the exchange of the lock's word.
        words.word(layout::hold(me.index, entry)).store(0, Ordering::Release);
        // Release: SYNC with the exchange in `take`: the store above.
        self.used[entry / 64].fetch_and(!(1 << (entry % 64)), Ordering::Release);
    }

    fn take(&self) -> Option<usize> {
        // Relaxed: a hint.
        let first = self.next.load(Ordering::Relaxed);
        for word in (0..WORDS).map(|word| (first + word) % WORDS) {
            // Relaxed: the exchange decides.
            let used = self.used[word].load(Ordering::Relaxed);
            let bit = used.trailing_ones() as usize;
            // Acquire: SYNC with the fetch_and in `remove`.
            if bit < PLACES
                && self.used[word]
                    .compare_exchange(used, used | 1 << bit, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return Some(word * 64 + bit);
            }
            self.next.store(word + 1, Ordering::Relaxed);
        }
        None
    }
}
