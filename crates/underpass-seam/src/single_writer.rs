//! Counters with one writer at a time, and the places of their writers.

use crate::atomic::{AtomicU64, Ordering};

/// Which of 64 places are taken. A kernel thread claims one, and then is the only writer of the
/// counters at that place until it gives the place back.
///
/// # Examples
/// ```
/// let places = underpass_seam::WriterPlaces::new();
/// assert_eq!((places.claim(), places.claim()), (Some(0), Some(1)));
/// places.give_back(0);
/// assert_eq!(places.claim(), Some(0));
/// ```
#[derive(Debug)]
pub struct WriterPlaces(AtomicU64);

impl WriterPlaces {
    /// How many there are.
    pub const COUNT: usize = u64::BITS as usize;

    /// All are free.
    #[cfg(not(underpass_loom))]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// All are free.
    #[cfg(underpass_loom)]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Claims a free place.
    pub fn claim(&self) -> Option<usize> {
        let free = |taken: u64| Some(taken | (taken.wrapping_add(1) & !taken)).filter(|&new| new != taken);
        // SYNC with `fetch_and` in `give_back`: the claimer sees what the last holder has counted.
        let before = self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, free).ok()?;
        Some(before.trailing_ones() as usize)
    }

    /// Gives a place back. The caller counts nothing there any more.
    pub fn give_back(&self, place: usize) {
        // SYNC with `fetch_update` in `claim`: what this thread has counted at the place.
        self.0.fetch_and(!(1 << place), Ordering::Release);
    }
}

impl Default for WriterPlaces {
    fn default() -> Self {
        Self::new()
    }
}

/// A counter that one thread at a time changes, without a locked instruction, and that all read. Or
/// one that all change.
///
/// # Examples
/// ```
/// let counter = underpass_seam::WriterCounter::default();
/// assert_eq!((counter.add(2, false), counter.add(3, true), counter.get()), (0, 2, 5));
/// ```
#[derive(Debug, Default)]
pub struct WriterCounter(AtomicU64);

impl WriterCounter {
    /// Adds `n`, and returns the number before. If it is not `shared`, the caller is its only
    /// writer.
    #[inline(always)]
    pub fn add(&self, n: u64, shared: bool) -> u64 {
        if shared {
            return self.add_shared(n);
        }
        // Relaxed, here and below: statistics. The next writer sees the number because it has
        // claimed the place of this one.
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before.wrapping_add(n), Ordering::Relaxed);
        before
    }

    #[cold]
    #[inline(never)]
    fn add_shared(&self, n: u64) -> u64 {
        self.0.fetch_add(n, Ordering::Relaxed)
    }

    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_one_holder() {
        let places = WriterPlaces::new();
        let all: Vec<_> = std::iter::from_fn(|| places.claim()).collect();
        assert!(all.iter().copied().eq(0..WriterPlaces::COUNT), "{all:?}");
        places.give_back(40);
        places.give_back(7);
        assert_eq!([places.claim(), places.claim(), places.claim()], [Some(7), Some(40), None]);
    }
}
