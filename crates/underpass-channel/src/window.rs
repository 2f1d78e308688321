//! How far messages go round before they come to the same line again, and how each says where the
//! next lies.
//!
//! The fewer lines messages go round, the sooner each is there: a processor that polls has the line
//! still, and has learnt to expect what comes (decision 0049). But a line may be written again only
//! when its last message has been taken. So a poster goes round no more lines than that asks for,
//! and the proof is in `README.md`.

use underpass_seam::atomic::{AtomicU32, Ordering};

/// Messages between two laps of all lines, so that no line has a head of which the sequence could
/// come again: a quarter of all sequences.
const FULL_PASS_EVERY: u32 = 1 << 14;

/// Where the message behind one lies: two bits of its head, and what all of their values mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advance {
    /// On the next of all lines.
    Full,
    /// On the next of a sixteenth of them.
    Short,
    /// On the next of a quarter of them.
    Middle,
    /// At the beginning of the next quarter.
    Widen,
}

impl Advance {
    /// These two bits.
    #[inline(always)]
    pub(crate) fn of(bits: u32) -> Self {
        match bits & 3 {
            0 => Self::Full,
            1 => Self::Short,
            2 => Self::Middle,
            _ => Self::Widen,
        }
    }

    /// One less than the lines of a lap, of all of which `mask` is one less than the number.
    #[inline(always)]
    fn window_mask(self, mask: u32) -> u32 {
        match self {
            Self::Short => mask >> 4,
            Self::Middle => mask >> 2,
            Self::Full | Self::Widen => mask,
        }
    }

    /// The line that follows `line`, both counted in the order of a whole lap.
    #[inline(always)]
    pub(crate) fn after(self, line: u32, mask: u32) -> u32 {
        let next = line.wrapping_add(1);
        match self {
            Self::Full => next & mask,
            Self::Widen => (line | mask >> 2).wrapping_add(1) & mask,
            Self::Short | Self::Middle => {
                let lap = self.window_mask(mask);
                line & !lap | next & lap
            }
        }
    }

    /// Messages before one that may be untaken when it is posted, exclusive: those of a lap but
    /// two, the one itself and the one that is to have the line of the oldest.
    fn limit(self, mask: u32) -> u32 {
        match self {
            Self::Full => u32::MAX,
            Self::Short | Self::Middle => self.window_mask(mask),
            Self::Widen => 0,
        }
    }

    /// The shortest lap that has room for one behind so many.
    fn shortest(behind: u32, mask: u32) -> Self {
        [Self::Short, Self::Middle].into_iter().find(|lap| behind < lap.limit(mask)).unwrap_or(Self::Full)
    }
}

/// What a poster knows of its laps. Under the lock of its end.
#[derive(Debug)]
pub(crate) struct Window {
    /// The lap that it is in.
    current: AtomicU32,
    /// The room of that.
    limit: AtomicU32,
    /// The most that was behind since it last thought about it, and the messages before it does so
    /// again.
    most_behind: AtomicU32,
    until_review: AtomicU32,
    /// How many messages had been posted when a lap of all lines last ended.
    last_full_pass: AtomicU32,
}

// Relaxed, all: the lock orders it.
impl Window {
    /// Of so many lines but one.
    pub(crate) fn new(mask: u32) -> Self {
        let first = Advance::shortest(0, mask);
        Self {
            current: AtomicU32::new(first as u32),
            limit: AtomicU32::new(first.limit(mask)),
            most_behind: AtomicU32::new(0),
            until_review: AtomicU32::new(mask + 1),
            last_full_pass: AtomicU32::new(0),
        }
    }

    /// Where the message goes on that is about to be posted behind so many that may be untaken.
    #[inline(always)]
    pub(crate) fn advance(&self, behind: u32, mask: u32) -> Advance {
        if behind >= self.limit.load(Ordering::Relaxed) {
            return self.widen(mask);
        }
        Advance::of(self.current.load(Ordering::Relaxed))
    }

    /// A lap has become too short: from here on all lines have their turn, and one that was in that
    /// lap not before many others.
    #[cold]
    fn widen(&self, mask: u32) -> Advance {
        self.enter(Advance::Full, mask);
        Advance::Widen
    }

    /// It was posted, behind so many that may be untaken, the last of `posted`.
    #[inline(always)]
    pub(crate) fn posted(&self, behind: u32, posted: u32, mask: u32) {
        if behind > self.most_behind.load(Ordering::Relaxed) {
            self.most_behind.store(behind, Ordering::Relaxed);
        }
        let left = self.until_review.load(Ordering::Relaxed).wrapping_sub(1);
        self.until_review.store(left, Ordering::Relaxed);
        if left == 0 {
            self.review(posted, mask);
        }
    }

    /// As many messages as there are lines went the same way.
    #[cold]
    fn review(&self, posted: u32, mask: u32) {
        let now = Advance::of(self.current.load(Ordering::Relaxed));
        if now == Advance::Full {
            self.last_full_pass.store(posted, Ordering::Relaxed);
        }
        let shortest = Advance::shortest(self.most_behind.load(Ordering::Relaxed), mask);
        if now != Advance::Full
            && posted.wrapping_sub(self.last_full_pass.load(Ordering::Relaxed)) >= FULL_PASS_EVERY
        {
            self.enter(now, mask);
            // The next leaps.
            self.limit.store(0, Ordering::Relaxed);
        } else if shortest.window_mask(mask) <= now.window_mask(mask) {
            self.enter(shortest, mask);
        } else {
            self.enter(now, mask);
        }
    }

    fn enter(&self, lap: Advance, mask: u32) {
        self.current.store(lap as u32, Ordering::Relaxed);
        self.limit.store(lap.limit(mask), Ordering::Relaxed);
        self.most_behind.store(0, Ordering::Relaxed);
        self.until_review.store(mask + 1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_lap_stays_within_its_lines() {
        let goes = |advance: Advance, from: u32| advance.after(from, 127);
        assert_eq!([5, 7, 127].map(|from| goes(Advance::Short, from)), [6, 0, 120]);
        assert_eq!([5, 31, 127].map(|from| goes(Advance::Middle, from)), [6, 0, 96]);
        assert_eq!([5, 31, 127].map(|from| goes(Advance::Full, from)), [6, 32, 0]);
        assert_eq!([5, 31, 127].map(|from| goes(Advance::Widen, from)), [32, 32, 0]);
        for bits in 0..4 {
            assert_eq!(Advance::of(bits) as u32, bits);
        }
    }

    #[test]
    fn a_lap_has_room_for_all_but_one() {
        let shortest = |behind| Advance::shortest(behind, 127);
        assert_eq!([0, 6].map(shortest), [Advance::Short; 2]);
        assert_eq!([7, 30].map(shortest), [Advance::Middle; 2]);
        assert_eq!([31, u32::MAX].map(shortest), [Advance::Full; 2]);
        assert_eq!(Advance::shortest(0, 3), Advance::Full, "a lap of one line has room for none");
    }

    #[test]
    fn all_lines_have_their_turn_before_sequences_come_again() {
        let window = Window::new(127);
        let (mut line, mut last) = (0, [0u32; 128]);
        for n in 1..=200_000u32 {
            last[line as usize] = n;
            line = window.advance(n % 5, 127).after(line, 127);
            window.posted(n % 5, n, 127);
            assert!(n < 40_000 || last.iter().all(|&last| n - last < 1 << 15), "{n}");
        }
    }
}
