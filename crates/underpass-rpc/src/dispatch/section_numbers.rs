//! The numbers of the sections of exclusive services that make a call
//! (`exclusive/README.md`, N1).

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use underpass_channel::Channel;
use underpass_channel::layout::SECTION_NUMBERS;
use underpass_threads::{section_numbers, with_section_numbers};

/// How a call waits for its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MadeBy {
    /// Its thread waits, and leaves its current section meanwhile if that is left at waits.
    Thread,
    /// A task polls for it. Whatever polls the task may stay in its section.
    Task,
}

/// The latest numbers, the very latest first. 0 stands for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SectionNumbers([u64; SECTION_NUMBERS]);

impl SectionNumbers {
    /// Those of a call that the calling thread makes.
    pub(crate) fn of_caller(made_by: MadeBy) -> Self {
        let (mut numbers, mut count) = (Self::default(), 0);
        section_numbers(made_by == MadeBy::Task, |number| {
            if count < SECTION_NUMBERS && number != 0 && !numbers.0.contains(&number) {
                numbers.0[count] = number;
                count += 1;
            }
        });
        numbers
    }

    /// Those of the call of `slot`, which has come.
    pub(crate) fn of_call(channel: &Channel, slot: u16) -> Self {
        Self(channel.section_words(slot).read())
    }

    /// Writes them for the call of `slot`, which will be posted.
    pub(crate) fn write(self, channel: &Channel, slot: u16) {
        channel.section_words(slot).write(self.0);
    }

    fn all(&self) -> &[u64] {
        let count = self.0.iter().position(|&number| number == 0);
        &self.0[..count.unwrap_or(SECTION_NUMBERS)]
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }

    pub(crate) fn contains(self, number: u64) -> bool {
        self.all().contains(&number)
    }

    /// Runs `work`. The calls in it carry these numbers.
    #[inline]
    pub(crate) fn within<R>(&self, work: impl FnOnce() -> R) -> R {
        with_section_numbers(self.all(), work)
    }

    /// A number that no other section has or had, in any domain. Not 0.
    pub(crate) fn fresh() -> u64 {
        /// Where the numbers of this domain begin. A forked child makes no calls with them.
        static FIRST: OnceLock<u64> = OnceLock::new();
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let first = *FIRST.get_or_init(|| RandomState::new().hash_one("underpass sections"));
        loop {
            // Relaxed: a number.
            match first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) {
                0 => {}
                number => return number,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_carry_the_numbers_within_which_they_are_made() {
        let of = |numbers| SectionNumbers(numbers);
        let seen = || SectionNumbers::of_caller(MadeBy::Thread);
        assert!(seen().is_empty());
        of([1, 2, 0, 0]).within(|| {
            assert_eq!(seen(), of([1, 2, 0, 0]));
            // A number that comes twice is carried once, and the earliest is left out.
            of([3, 1, 4, 0]).within(|| assert_eq!(seen(), of([3, 1, 4, 2])));
            of([5, 6, 7, 0]).within(|| assert_eq!(seen(), of([5, 6, 7, 1])));
            assert!(seen().contains(2) && !seen().contains(0) && !seen().contains(3));
            // A thread has no part in the sections of the thread that starts it.
            assert!(underpass_threads::spawn(seen).join().unwrap().is_empty());
            let blocking = underpass_threads::spawn(move || {
                of([8, 0, 0, 0]).within(|| underpass_threads::blocking(seen))
            });
            assert_eq!(blocking.join().unwrap(), of([8, 0, 0, 0]));
        });
        assert!(seen().is_empty());
    }

    #[test]
    fn numbers_are_not_used_twice() {
        let numbers: std::collections::HashSet<_> = (0..1000).map(|_| SectionNumbers::fresh()).collect();
        assert!(numbers.len() == 1000 && !numbers.contains(&0));
    }
}
