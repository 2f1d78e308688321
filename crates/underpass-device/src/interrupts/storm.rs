//! How many upcalls are too many.

/// This many upcalls in a row that found nothing to do are a storm.
const SPURIOUS: u32 = 256;
/// More than this many upcalls in a [`WINDOW`] are a storm, whatever they find.
const MOST: u32 = 10_000;
/// In ns.
const WINDOW: u64 = 100_000_000;
/// For how long the first storm masks the vector, in ns. Each further one that follows without an
/// upcall that was of use lasts twice as long.
const FIRST: u64 = 1_000_000;
/// The most doublings.
const DOUBLED: u32 = 7;

/// Counts the upcalls of one vector.
#[derive(Debug, Default)]
pub(crate) struct StormGuard {
    /// In a row, without use.
    spurious: u32,
    storms: u32,
    begun: u64,
    in_window: u32,
}

impl StormGuard {
    /// Notes an upcall at `now`, in ns. Returns for how many ns the vector is to be masked.
    pub(crate) fn note(&mut self, now: u64, of_use: bool) -> Option<u64> {
        if now.saturating_sub(self.begun) >= WINDOW {
            (self.begun, self.in_window) = (now, 0);
        }
        self.in_window += 1;
        if of_use {
            (self.spurious, self.storms) = (0, 0);
        } else {
            self.spurious += 1;
        }
        if self.spurious >= SPURIOUS {
            self.spurious = 0;
            self.storms += 1;
            return Some(FIRST << (self.storms - 1).min(DOUBLED));
        }
        (self.in_window > MOST).then(|| (self.begun + WINDOW).saturating_sub(now).max(FIRST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upcalls_without_use_are_a_storm_and_the_next_one_lasts_longer() {
        let mut guard = StormGuard::default();
        let mut masked =
            |of_use: bool| (0..10_000u32).find_map(|n| Some((n, guard.note(0, of_use && n == 0)?))).unwrap();
        assert_eq!(masked(false), (SPURIOUS - 1, FIRST));
        assert_eq!(masked(false), (SPURIOUS - 1, 2 * FIRST));
        assert_eq!(masked(true), (SPURIOUS, FIRST), "one was of use");
        for _ in 0..20 {
            assert!(masked(false).1 <= FIRST << DOUBLED);
        }
    }

    #[test]
    fn too_many_are_a_storm_even_if_each_is_of_use() {
        let mut guard = StormGuard::default();
        assert_eq!((0..MOST).find_map(|_| guard.note(5, true)), None);
        assert_eq!(guard.note(WINDOW - 5, true), Some(FIRST), "no less than the least");
        assert_eq!(guard.note(2 * WINDOW, true), None, "another window");
        let mut guard = StormGuard::default();
        assert_eq!((0..=MOST).find_map(|_| guard.note(0, true)), Some(WINDOW));
    }
}
