//! Which activation serves a line, where several serve calls.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The number of the activation that alone looks at a line as long as it keeps up, or nobody's. It
/// says who is to look, and guards nothing.
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
    /// Its number plus one, or 0.
    number: AtomicUsize,
    /// What [`stands_still`](Self::stands_still) saw: how many messages had been taken, and since
    /// when, in us modulo 2³²; or 0.
    seen: AtomicU64,
}

// Relaxed throughout: see above.
impl LineOwner {
    /// The activation, if there is one.
    #[inline]
    pub fn get(&self) -> Option<usize> {
        self.number.load(Ordering::Relaxed).checked_sub(1)
    }

    /// From now on it is this one, or nobody.
    pub fn set(&self, number: Option<usize>) {
        self.number.store(number.map_or(0, |number| number + 1), Ordering::Relaxed);
    }

    /// Nobody's from now on, if it was this activation's.
    pub fn release(&self, number: usize) {
        let _ = self.number.compare_exchange(number + 1, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether no message of the line has been taken for `span` ns, as far as who asked this has
    /// seen: `taken` have been until `now`, in ns. For a line on which something waits: whoever is
    /// to take it is held up.
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
        // Beyond where the clock's part wraps.
        let (owner, begin) = (LineOwner::default(), (1 << 32) * 1_000 - SPAN / 2);
        assert!(!owner.stands_still(0, begin, SPAN), "nobody has looked before");
        assert!(!owner.stands_still(7, begin, SPAN));
        assert!(!owner.stands_still(7, begin + SPAN - 1_000, SPAN));
        assert!(owner.stands_still(7, begin + SPAN, SPAN), "the look in between did not restart the span");
        assert!(!owner.stands_still(8, begin + 2 * SPAN, SPAN), "one was taken");
        assert!(owner.stands_still(8, begin + 3 * SPAN, SPAN));
    }
}
