//! The layout of an object's memory, in words of eight bytes. This file is the ABI between a home
//! and its readers. The home writes all of it; nobody else can.
//!
//! | part | words | when it is written |
//! |---|---|---|
//! | [`LAYOUT`], [`SHAPE`], [`GENERATION`] | 0 to 2 | before anybody else has the memory |
//! | [`PUBLISHED`], [`BEGUN`], [`ENDED`] | 8 to 10 | see `README.md` |
//! | slots | [`slot`] | see `README.md` |

/// Changes with every change of this file.
pub(crate) const VERSION: u64 = 1;

/// How many versions the memory holds. A reader has to copy again only if the home begins as many
/// in the meantime.
#[cfg(not(underpass_loom))]
pub(crate) const SLOTS: u64 = 4;
// A model has few threads, and loom few steps.
#[cfg(underpass_loom)]
pub(crate) const SLOTS: u64 = 2;

/// Words of a cache line.
const LINE: usize = 8;

/// Which layout, which type, which home. Readers compare what the home tells them; this is for
/// people who look at the memory.
pub(crate) const LAYOUT: usize = 0;
pub(crate) const SHAPE: usize = 1;
pub(crate) const GENERATION: usize = 2;
/// The newest version that is whole.
pub(crate) const PUBLISHED: usize = LINE;
/// The newest version that the home has begun to write.
pub(crate) const BEGUN: usize = LINE + 1;
/// 1 once the home has ended the object.
pub(crate) const ENDED: usize = LINE + 2;
const FIRST_SLOT: usize = 2 * LINE;

/// In a slot: when its version was published, in ns of the home's clock.
pub(crate) const STAMP: usize = 0;
/// In a slot: the bytes of its version.
pub(crate) const DATA: usize = 1;

/// Words of a slot for `bytes` bytes, in whole lines.
const fn slot_words(bytes: usize) -> usize {
    (DATA + bytes.div_ceil(8)).next_multiple_of(LINE)
}

/// Words of the memory of an object of `bytes` bytes.
pub(crate) const fn words_of(bytes: usize) -> usize {
    FIRST_SLOT + SLOTS as usize * slot_words(bytes)
}

/// Cache lines that a reader copies: those of a slot, and that of the header.
pub(crate) const fn lines_of(bytes: usize) -> usize {
    slot_words(bytes) / LINE + 1
}

/// Words of as many lines.
pub(crate) const fn words_of_lines(lines: usize) -> usize {
    lines * LINE
}

/// Where the slot of `version` begins.
#[inline]
pub(crate) const fn slot(version: u64, bytes: usize) -> usize {
    FIRST_SLOT + (version % SLOTS) as usize * slot_words(bytes)
}

const _: () = assert!(slot(SLOTS - 1, 100) + DATA + 13 <= words_of(100));
// A small object takes one line beside the line of the header.
const _: () = assert!(slot(1, 56) - slot(0, 56) == LINE);
const _: () = assert!(lines_of(56) == 2 && lines_of(57) == 3);
