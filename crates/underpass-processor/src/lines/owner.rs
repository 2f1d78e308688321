//! Which activation serves a line, if several serve calls.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The activation that owns a line, by its number. The owner alone looks at the line, as long as it
/// keeps up. This only says which activation looks; it guards nothing.
///
/// # Examples
/// ```
/// use underpass_processor::LineOwner;
///
/// let owner = LineOwner::default();
/// assert_eq!(owner.get(), None);
/// owner.set(Some(3));
/// owner.release(2);
/// assert_eq!(owner.get(), Some(3));
/// owner.release(3);
/// assert_eq!(owner.get(), None);
/// ```
#[derive(Debug, Default)]
pub struct LineOwner {
    /// The number plus one, or 0 if the line has no owner.
    number: AtomicUsize,
    /// What [`stands_still`](Self::stands_still) saw: how many messages had been taken, and since
    /// when, in us modulo 2³². Or 0.
    seen: AtomicU64,
}

// Relaxed throughout: it guards nothing.
impl LineOwner {
    /// The owner, if there is one.
    #[inline]
    pub fn get(&self) -> Option<usize> {
        self.number.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Sets the owner, or none.
    pub fn set(&self, number: Option<usize>) {
        self.number.store(number.map_or(0, |number| number + 1), Ordering::Relaxed);
    }

    /// If this activation is the owner, the line has none from now on.
    pub fn release(&self, number: usize) {
        let _ = self.number.compare_exchange(number + 1, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether no message of the line has been taken for `span` ns, as far as callers of this have
    /// seen. `taken` messages have been taken until `now`, in ns. It is for a line on which
    /// something waits: if it stands still, its owner is held up.
    pub fn stands_still(&self, taken: u32, now: u64, span: u64) -> bool {
        let (seen, now) = (self.seen.load(Ordering::Relaxed), (now / 1_000) as u32);
        if seen != 0 && (seen >> 32) as u32 == taken {
            return u64::from(now.wrapping_sub(seen as u32)) * 1_000 >= span;
        }
        self.seen.store(u64::from(taken) << 32 | u64::from(now), Ordering::Relaxed);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stands_still_where_nothing_is_taken_for_the_whole_span() {
        const SPAN: u64 = 100_000;
        // So that the clock's part wraps during the test.
        let (owner, begin) = (LineOwner::default(), (1 << 32) * 1_000 - SPAN / 2);
        assert!(!owner.stands_still(0, begin, SPAN), "nobody has looked before");
        assert!(!owner.stands_still(7, begin, SPAN));
        assert!(!owner.stands_still(7, begin + SPAN - 1_000, SPAN));
        assert!(owner.stands_still(7, begin + SPAN, SPAN), "the look in between did not restart the span");
        assert!(!owner.stands_still(8, begin + 2 * SPAN, SPAN), "one was taken");
        assert!(owner.stands_still(8, begin + 3 * SPAN, SPAN));
    }
}
