//! What the two ends of a stream write into its memory about themselves, and before each record.

/// `Finished`: all items were sent, or the last record is an error.
pub(crate) const FINISHED: u64 = 1;
/// `Finished`: the writer was dropped before the end.
pub(crate) const ABANDONED: u64 = 2;
/// `Finished`: the writer's binding has ended.
pub(crate) const ENDED_WITH_BINDING: u64 = 3;
/// `Finished`: the writer is on another machine, which can't be reached any more.
pub(crate) const LOST: u64 = 4;
/// `Finished`: the writer is on another machine, and has broken the rules.
pub(crate) const MALFORMED: u64 = 5;

/// `Closed`: the reader has mapped the memory.
pub(crate) const TAKEN: u64 = 1;
/// `Closed`: the reader's barriers reach this domain.
pub(crate) const LIGHT: u64 = 2;
/// `Closed`: the reader was dropped.
pub(crate) const DROPPED: u64 = 4;
/// `Closed`: the reader's binding has ended.
pub(crate) const CLOSED_WITH_BINDING: u64 = 8;

/// The first byte of a record with an item.
pub(crate) const ITEM: u8 = 0;
/// The first byte of a record with the error that ends the stream.
pub(crate) const FAILURE: u8 = 1;
