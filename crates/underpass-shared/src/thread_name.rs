//! Domain-independent names of threads that wait (OThreads, 5.2).

use crate::layout::{self, MEMBERS};
use crate::words::RegionWords;
use underpass_seam::atomic::Ordering;

/// Names one wait of one thread, in any domain. Its holder can end that wait, and do nothing
/// else: the thread then looks again at what it waits for.
///
/// | part | says |
/// |---|---|
/// | `domain` | which member's thread |
/// | `index` | which of that member's waiters |
/// | `generation` | which wait of that waiter |
/// | `key` | what nobody can guess who has not read the name |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadName {
    pub(crate) domain: usize,
    pub(crate) index: usize,
    pub(crate) generation: u32,
    pub(crate) key: u32,
}

impl ThreadName {
    /// The name of the thread in the record of a waiter. `domain` and `index` are those of the
    /// record, whatever its words say.
    pub(crate) fn read(words: &RegionWords, domain: usize, index: usize) -> Self {
        // Acquire: SYNC with the fetch_or in `LocalDomain::enroll`, which the caller has read
        // before. The member that wrote the name checks it.
        let word = words.word(layout::record(domain, index) + layout::NAME).load(Ordering::Acquire);
        Self { domain, index, generation: (word >> 32) as u32, key: word as u32 }
    }

    /// Generation and key in one word, which is never 0.
    pub(crate) fn word(self) -> u64 {
        word(self.generation, self.key)
    }

    /// Whether a member of this index and with such a waiter can exist.
    pub(crate) fn is_possible(self) -> bool {
        self.domain < MEMBERS && self.index < layout::WAITERS
    }
}

/// Generation and key in one word. No generation is 0, so no name is.
pub(crate) fn word(generation: u32, key: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(key)
}
