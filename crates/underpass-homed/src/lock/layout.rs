//! The layout of a locked object's memory, in words of eight bytes. This file is the ABI between a
//! home and its remotes. See `README.md` for the owners of the words.

/// Changes with every change of this file.
pub(crate) const VERSION: u64 = 1;

/// Words of a cache line.
const LINE: usize = 8;

/// Which layout and which type. For people who look at the memory.
pub(crate) const LAYOUT: usize = 0;
pub(crate) const SHAPE: usize = 1;
/// The lock. It has a line of its own.
pub(crate) const LOCK: usize = LINE;
/// The data, or the permits of a semaphore.
pub(crate) const DATA: usize = 2 * LINE;

/// The most permits of a semaphore.
#[cfg(not(underpass_loom))]
pub(crate) const PERMITS: usize = 64;
// A model has few threads, and loom few steps.
#[cfg(underpass_loom)]
pub(crate) const PERMITS: usize = 2;

/// Words of an object with `bytes` bytes of data.
pub(crate) const fn words_of(bytes: usize) -> usize {
    DATA + bytes.div_ceil(8).next_multiple_of(LINE)
}

const _: () = assert!(words_of(0) == DATA && words_of(1) == DATA + LINE);
