//! The permits of a semaphore, a word each. Nothing here waits.

use crate::lock::layout::DATA;
use crate::words::Words;
use underpass_seam::atomic::Ordering;

/// Takes one of `permits` permits for `me`, if one is free. Returns which one.
pub(crate) fn take_permit(words: &impl Words, permits: usize, me: u32) -> Option<usize> {
    // Each begins somewhere else, so that they seldom meet.
    let first = me as usize;
    (0..permits).map(|at| (first + at) % permits).find(|&permit| {
        let word = words.word(DATA + permit);
        // Relaxed: the exchange decides. Acquire: SYNC with the exchange in `give_permit_back`:
        // what its last holder did.
        word.load(Ordering::Relaxed) == 0
            && word.compare_exchange(0, me.into(), Ordering::Acquire, Ordering::Relaxed).is_ok()
    })
}

/// Gives a permit back, if it is still that of `me`.
pub(crate) fn give_permit_back(words: &impl Words, permit: usize, me: u32) {
    // SYNC with the exchange in `take_permit`. Relaxed: if it is another's, there is nothing to do.
    let _ = words.word(DATA + permit).compare_exchange(me.into(), 0, Ordering::Release, Ordering::Relaxed);
}

/// D2: gives back all permits of `dead`.
pub(crate) fn free_permits_of(words: &impl Words, permits: usize, dead: u32) {
    (0..permits).for_each(|permit| give_permit_back(words, permit, dead));
}

/// How many permits are free at this moment.
pub(crate) fn free_permits(words: &impl Words, permits: usize) -> usize {
    // Relaxed: the next moment may differ.
    (0..permits).filter(|permit| words.word(DATA + permit).load(Ordering::Relaxed) == 0).count()
}
