//! The ring window: how many lines of the ring messages use before they come to the same line
//! again, and how each message says on which line the next one lies.
//!
//! A small window is faster: a processor that polls still has the line in its cache, and its
//! predictors have learnt what comes (decision 0049). But a line may be written again only after
//! its last message was taken. So a poster uses the smallest window that is large enough for the
//! messages under way. The proof is in `README.md`.

use underpass_seam::atomic::{AtomicU32, Ordering};

/// The most messages between two passes over the full ring: a quarter of all sequence numbers. So
/// no line keeps a head so old that its sequence number could come again.
const FULL_PASS_EVERY: u32 = 1 << 14;

/// Where the next message lies. These are two bits of a head, and every value has a meaning. They
/// are compared, as a `match` on an enum would jump through a table for each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Advance(u32);

impl Advance {
    /// On the next line of the full ring.
    pub(crate) const FULL: Self = Self(0);
    /// On the next line of the same sixteenth of the ring.
    pub(crate) const SMALL: Self = Self(1);
    /// On the next line of the same quarter of the ring.
    const MIDDLE: Self = Self(2);
    /// On the first line of the next quarter: the window has become too small.
    const WIDEN: Self = Self(3);

    /// The meaning of the two low bits of `bits`.
    #[inline(always)]
    pub(crate) fn of(bits: u32) -> Self {
        Self(bits & 3)
    }

    /// The two bits.
    #[inline(always)]
    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    /// The number of lines of this window less one. `mask` is the number of lines of the ring less
    /// one.
    #[inline(always)]
    fn window_mask(self, mask: u32) -> u32 {
        match self {
            Self::SMALL => mask >> 4,
            Self::MIDDLE => mask >> 2,
            _ => mask,
        }
    }

    /// The line that follows `line`. Both are numbered in the order of the full ring.
    #[inline(always)]
    pub(crate) fn after(self, line: u32, mask: u32) -> u32 {
        match self {
            Self::SMALL => within(mask >> 4, line),
            _ => self.after_in_larger(line, mask),
        }
    }

    /// `after` for any window. Out of line, so that the smallest one needs no jump through a table.
    #[inline(never)]
    fn after_in_larger(self, line: u32, mask: u32) -> u32 {
        match self {
            Self::WIDEN => (line | mask >> 2).wrapping_add(1) & mask,
            window => within(window.window_mask(mask), line),
        }
    }

    /// The window has room for a message if fewer than this many predecessors may be untaken. That
    /// is the number of its lines less one: one line is for the message itself, and one for its
    /// successor.
    fn limit(self, mask: u32) -> u32 {
        match self {
            Self::FULL => u32::MAX,
            Self::WIDEN => 0,
            window => window.window_mask(mask),
        }
    }

    /// The smallest window with room for a message of which `behind` predecessors may be untaken.
    fn smallest(behind: u32, mask: u32) -> Self {
        [Self::SMALL, Self::MIDDLE]
            .into_iter()
            .find(|window| behind < window.limit(mask))
            .unwrap_or(Self::FULL)
    }
}

/// The line after `line` in a window of `window` + 1 lines.
#[inline(always)]
fn within(window: u32, line: u32) -> u32 {
    line & !window | line.wrapping_add(1) & window
}

/// The poster's private state of its window. The lock of its end guards it.
#[derive(Debug)]
pub(crate) struct Window {
    /// The window in use.
    current: AtomicU32,
    /// `limit` of that window.
    limit: AtomicU32,
    /// `most_behind`: the largest `behind` since the last review. `until_review`: messages until
    /// the next one.
    most_behind: AtomicU32,
    until_review: AtomicU32,
    /// How many messages had been posted when a pass over the full ring last ended.
    last_full_pass: AtomicU32,
}

// Relaxed, all: the lock orders them.
impl Window {
    /// The state for a fresh ring of `mask` + 1 lines.
    pub(crate) fn new(mask: u32) -> Self {
        let first = Advance::smallest(0, mask);
        Self {
            current: AtomicU32::new(first.bits()),
            limit: AtomicU32::new(first.limit(mask)),
            most_behind: AtomicU32::new(0),
            until_review: AtomicU32::new(mask + 1),
            last_full_pass: AtomicU32::new(0),
        }
    }

    /// Where the successor lies of the message that is about to be posted. Up to `behind`
    /// predecessors of the message may be untaken.
    #[inline(always)]
    pub(crate) fn advance(&self, behind: u32, mask: u32) -> Advance {
        if behind >= self.limit.load(Ordering::Relaxed) {
            return self.widen(mask);
        }
        Advance::of(self.current.load(Ordering::Relaxed))
    }

    /// The window has become too small: goes on through the full ring. So a line of the old window
    /// is used again only after three quarters of the ring.
    #[cold]
    fn widen(&self, mask: u32) -> Advance {
        self.enter(Advance::FULL, mask);
        Advance::WIDEN
    }

    /// Notes a post. Up to `behind` of its predecessors may have been untaken, and `posted`
    /// messages have been posted with it.
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

    /// Chooses the next window, after as many messages in one window as the ring has lines.
    #[cold]
    fn review(&self, posted: u32, mask: u32) {
        let now = Advance::of(self.current.load(Ordering::Relaxed));
        if now == Advance::FULL {
            self.last_full_pass.store(posted, Ordering::Relaxed);
        }
        let smallest = Advance::smallest(self.most_behind.load(Ordering::Relaxed), mask);
        if now != Advance::FULL
            && posted.wrapping_sub(self.last_full_pass.load(Ordering::Relaxed)) >= FULL_PASS_EVERY
        {
            self.enter(now, mask);
            // The next message widens the window.
            self.limit.store(0, Ordering::Relaxed);
        } else if smallest.window_mask(mask) <= now.window_mask(mask) {
            self.enter(smallest, mask);
        } else {
            self.enter(now, mask);
        }
    }

    fn enter(&self, window: Advance, mask: u32) {
        self.current.store(window.bits(), Ordering::Relaxed);
        self.limit.store(window.limit(mask), Ordering::Relaxed);
        self.most_behind.store(0, Ordering::Relaxed);
        self.until_review.store(mask + 1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_window_stays_within_its_lines() {
        let goes = |advance: Advance, from: u32| advance.after(from, 127);
        assert_eq!([5, 7, 127].map(|from| goes(Advance::SMALL, from)), [6, 0, 120]);
        assert_eq!([5, 31, 127].map(|from| goes(Advance::MIDDLE, from)), [6, 0, 96]);
        assert_eq!([5, 31, 127].map(|from| goes(Advance::FULL, from)), [6, 32, 0]);
        assert_eq!([5, 31, 127].map(|from| goes(Advance::WIDEN, from)), [32, 32, 0]);
        for bits in 0..4 {
            assert_eq!(Advance::of(bits).bits(), bits);
        }
    }

    #[test]
    fn a_window_has_room_for_all_but_one() {
        let smallest = |behind| Advance::smallest(behind, 127);
        assert_eq!([0, 6].map(smallest), [Advance::SMALL; 2]);
        assert_eq!([7, 30].map(smallest), [Advance::MIDDLE; 2]);
        assert_eq!([31, u32::MAX].map(smallest), [Advance::FULL; 2]);
        assert_eq!(Advance::smallest(0, 3), Advance::FULL, "a window of one line has no room");
    }

    #[test]
    fn all_lines_are_used_before_sequence_numbers_come_again() {
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
