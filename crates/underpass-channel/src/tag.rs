//! The tag of a row: which binding of a connection a request is for.

/// Names a row of a connection: its index, and a generation that tells it from the rows that had
/// the same index before.
///
/// A request has it in the first word of its payload. If the bytes of a message lie elsewhere,
/// their number is in the same word:
///
/// ```text
/// first word    index : 20 | generation : 17 | number of bytes that lie elsewhere : 27
/// ```
///
/// A reply has no row, and zero there. Each side has rows of its own, so a channel in the other
/// direction needs no bit that says whose row is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(u64);

impl Tag {
    /// Bytes that the word of the tag takes from a request's cell.
    pub const BYTES: usize = 8;
    /// Bits of a tag. The bits above are free for the user of the word.
    pub const BITS: u32 = Self::INDEX + Self::GENERATION;
    /// The most rows of a connection.
    pub const ROWS: usize = 1 << Self::INDEX;
    /// The tag that no row has, since generation 0 is left out.
    pub const NONE: Self = Self(0);

    const INDEX: u32 = 20;
    const GENERATION: u32 = 17;
    const MASK: u64 = (1 << Self::BITS) - 1;

    /// The row `index` in its generation, both modulo what a tag has room for.
    pub const fn new(index: u32, generation: u32) -> Self {
        let index = index as u64 & ((1 << Self::INDEX) - 1);
        Self((index | (generation as u64) << Self::INDEX) & Self::MASK)
    }

    /// The tag in the low bits of `word`.
    #[inline(always)]
    pub const fn of_word(word: u64) -> Self {
        Self(word & Self::MASK)
    }

    /// The tag as the low bits of a word.
    #[inline(always)]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The index of the row.
    #[inline(always)]
    pub const fn index(self) -> usize {
        (self.0 & ((1 << Self::INDEX) - 1)) as usize
    }

    /// Whether it names a later row than `other`, which has the same index. Generations compare
    /// modulo their range.
    pub const fn is_newer_than(self, other: Self) -> bool {
        let range = 1 << Self::GENERATION;
        let ahead = (range + self.generation() - other.generation()) % range;
        ahead != 0 && ahead < range / 2
    }

    /// The generation of the row.
    pub const fn generation(self) -> u32 {
        (self.0 >> Self::INDEX) as u32
    }
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    #[test]
    fn generations_compare_modulo_their_range() {
        let last = (1 << 17) - 1;
        for (older, newer) in [(1, 2), (last, 1), (last - 5, 3)] {
            let [older, newer] = [older, newer].map(|generation| Tag::new(9, generation));
            assert!(newer.is_newer_than(older) && !older.is_newer_than(newer));
        }
        assert!(!Tag::new(9, 4).is_newer_than(Tag::new(9, 4)));
    }

    #[test]
    fn index_and_generation_come_back() {
        for (index, generation) in [(0, 1), (1, 0), (99_999, 5), (Tag::ROWS as u32 - 1, (1 << 17) - 1)] {
            let tag = Tag::new(index, generation);
            assert_eq!((tag.index(), tag.generation()), (index as usize, generation));
            assert_eq!(Tag::of_word(tag.word() | u64::MAX << Tag::BITS), tag);
        }
        assert_eq!(Tag::new(Tag::ROWS as u32, 1 << 17), Tag::new(0, 0), "both count modulo their range");
    }
}
