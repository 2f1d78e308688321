//! One word of a row: how many processors went over a link, of which generation it is, and whether
//! it is closed.

use underpass_seam::atomic::{AtomicU64, Ordering};

const CLOSED: u64 = 1 << 63;
const GENERATION: u32 = u32::MAX >> 1;

/// The value of such a word. The count is modulo 2³².
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkWord {
    /// How many processors went over the link since it began.
    pub count: u32,
    /// The generation of the place at the other end.
    pub generation: u32,
    /// Nothing is added any more.
    pub closed: bool,
}

impl LinkWord {
    /// The value that these 64 bits stand for. All bits stand for some value.
    #[inline]
    pub fn unpack(bits: u64) -> Self {
        Self { count: bits as u32, generation: (bits >> 32) as u32 & GENERATION, closed: bits & CLOSED != 0 }
    }

    /// The bits that stand for this value.
    #[inline]
    pub fn pack(self) -> u64 {
        let closed = if self.closed { CLOSED } else { 0 };
        u64::from(self.count) | u64::from(self.generation & GENERATION) << 32 | closed
    }

    /// Whether the link to a place of this generation is open.
    #[inline]
    pub fn is_open(self, generation: u32) -> bool {
        !self.closed && self.generation == generation
    }
}

/// Adds one to an open word, if `wanted` agrees to its value. Returns whether it did.
pub(super) fn add(word: &AtomicU64, generation: u32, wanted: impl Fn(LinkWord) -> bool) -> bool {
    // Relaxed: the exchange compares.
    let mut bits = word.load(Ordering::Relaxed);
    loop {
        let now = LinkWord::unpack(bits);
        if !now.is_open(generation) || !wanted(now) {
            return false;
        }
        let next = LinkWord { count: now.count.wrapping_add(1), ..now };
        // SYNC with `word` fetch_or in `close`, and with the load of T1: of G2 and S3, or of T3 and
        // S2, one comes first.
        match word.compare_exchange_weak(bits, next.pack(), Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(other) => bits = other,
        }
    }
}

/// Closes a word. Returns its final value.
pub(super) fn close(word: &AtomicU64) -> LinkWord {
    // SYNC with `word` compare_exchange_weak in `add`.
    LinkWord::unpack(word.fetch_or(CLOSED, Ordering::AcqRel))
}

/// Opens a word for a place of this generation.
pub(super) fn open(word: &AtomicU64, generation: u32) {
    let value = LinkWord { count: 0, generation, closed: false };
    // SYNC with `word` loads in `add` and T1, which compare the generation.
    word.store(value.pack(), Ordering::Release);
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_what_was_packed() {
        let value = LinkWord { count: u32::MAX, generation: 5, closed: true };
        assert_eq!(LinkWord::unpack(value.pack()), value);
        let all = LinkWord::unpack(u64::MAX);
        assert_eq!((all.count, all.generation, all.closed), (u32::MAX, GENERATION, true));
    }

    #[test]
    fn only_an_open_word_of_the_generation_grows() {
        let word = AtomicU64::new(0);
        open(&word, 3);
        assert!(!add(&word, 2, |_| true) && !add(&word, 3, |_| false));
        assert!(add(&word, 3, |now| now.count == 0));
        assert_eq!(close(&word), LinkWord { count: 1, generation: 3, closed: false });
        assert!(!add(&word, 3, |_| true));
        open(&word, 4);
        assert!(!add(&word, 3, |_| true) && add(&word, 4, |_| true));
    }

    #[test]
    fn a_count_goes_round() {
        let word = AtomicU64::new(LinkWord { count: u32::MAX, generation: 1, closed: false }.pack());
        assert!(add(&word, 1, |_| true));
        assert_eq!(LinkWord::unpack(word.into_inner()).count, 0);
    }
}
