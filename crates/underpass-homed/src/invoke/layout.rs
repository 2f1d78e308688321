//! The layout of a request area, in words of eight bytes. This file is the ABI between a home and
//! its requesters. See `README.md` for the owners of the words.

/// Changes with every change of this file.
pub(crate) const VERSION: u64 = 1;

/// How many requests an area has.
#[cfg(not(underpass_loom))]
pub(crate) const REQUESTS: usize = 16;
// A model has few threads, and loom few steps.
#[cfg(underpass_loom)]
pub(crate) const REQUESTS: usize = 2;

/// Words of arguments, and of results.
pub(crate) const OPERANDS: usize = 6;

/// Words of a cache line.
const LINE: usize = 8;

/// The reserved location: the index of a request plus 1, or 0.
pub(crate) const RESERVED: usize = 0;

/// In a request: its number, operation and arguments.
pub(crate) const NUMBER: usize = 0;
pub(crate) const OPERATION: usize = 1;
pub(crate) const ARGUMENTS: usize = 2;
/// In its second line: what the home has received, what it has completed, and the results.
pub(crate) const RECEIVED: usize = LINE;
pub(crate) const COMPLETED: usize = LINE + 1;
pub(crate) const RESULTS: usize = LINE + 2;

/// Where a request begins.
#[inline]
pub(crate) const fn request(index: usize) -> usize {
    assert!(index < REQUESTS);
    LINE + index * 2 * LINE
}

/// Words of an area.
pub(crate) const WORDS: usize = LINE + REQUESTS * 2 * LINE;

const _: () = assert!(WORDS * 8 <= 4096 && ARGUMENTS + OPERANDS == LINE);
