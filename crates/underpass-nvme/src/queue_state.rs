//! What one driver leaves of a queue to the next.

use crate::queue::{SLOT_BITS, SLOTS};

/// Blocks that are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockRange {
    pub(crate) block: u64,
    pub(crate) blocks: u64,
    /// Bytes.
    pub(crate) len: usize,
}

impl BlockRange {
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.block < other.block + other.blocks && other.block < self.block + self.blocks
    }
}

/// What a successor needs of a queue under which no command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueState {
    pub(crate) entries: u16,
    pub(crate) tail: u16,
    pub(crate) head: u16,
    pub(crate) phase: bool,
    pub(crate) uses: [u16; SLOTS],
}

impl QueueState {
    pub(crate) const WORDS: usize = 1 + SLOTS / 4;

    pub(crate) fn encode(&self) -> [u64; Self::WORDS] {
        let pack = |of: &[u16]| of.iter().rev().fold(0, |word, part| word << 16 | u64::from(*part));
        let mut words = [pack(&[self.entries, self.tail, self.head, self.phase.into()]); Self::WORDS];
        for (word, uses) in words[1..].iter_mut().zip(self.uses.chunks(4)) {
            *word = pack(uses);
        }
        words
    }

    /// `None`: no queue can be in such a state.
    pub(crate) fn decode(words: [u64; Self::WORDS]) -> Option<Self> {
        let part = |word: u64, number: usize| (word >> (16 * number)) as u16;
        let [entries, tail, head, phase] = [0, 1, 2, 3].map(|number| part(words[0], number));
        let mut uses = [0; SLOTS];
        for (number, uses) in uses.iter_mut().enumerate() {
            *uses = part(words[1 + number / 4], number % 4) & (u16::MAX >> SLOT_BITS);
        }
        let can_be = entries >= 2 && tail < entries && head < entries && phase < 2;
        can_be.then_some(Self { entries, tail, head, phase: phase == 1, uses })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let uses = std::array::from_fn(|slot| slot as u16 * 60);
        let state = QueueState { entries: 64, tail: 63, head: 7, phase: true, uses };
        assert_eq!(QueueState::decode(state.encode()), Some(state));
    }

    #[test]
    fn a_state_that_can_t_be_is_none() {
        let good = QueueState { entries: 64, tail: 0, head: 0, phase: false, uses: [0; SLOTS] };
        for bad in [
            QueueState { entries: 1, ..good },
            QueueState { tail: 64, ..good },
            QueueState { head: u16::MAX, ..good },
        ] {
            assert_eq!(QueueState::decode(bad.encode()), None, "{bad:?}");
        }
        let mut words = good.encode();
        words[0] |= 2 << 48;
        assert_eq!(QueueState::decode(words), None, "a phase is one bit");
    }

    #[test]
    fn ranges_overlap_if_they_have_a_block_in_common() {
        let range = |block, blocks| BlockRange { block, blocks, len: 0 };
        assert!(range(4, 4).overlaps(&range(7, 1)) && range(7, 1).overlaps(&range(4, 4)));
        assert!(!range(4, 4).overlaps(&range(8, 1)) && !range(8, 1).overlaps(&range(4, 4)));
    }
}
