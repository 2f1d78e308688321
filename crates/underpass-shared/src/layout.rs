//! The layout of a region, in words of eight bytes. This file is the ABI between its members.
//!
//! | part | where | written by |
//! |---|---|---|
//! | header | word 0 on | the exporter, before anybody else has the memory |
//! | a member's page | [`page`] | that member; others write its bell and the signals of its waiters |
//! | objects | [`OBJECTS`] on | see `README.md` |

/// Changes with every change of this file.
pub(crate) const VERSION: u64 = 2;

/// How many domains a region can have, the exporter among them.
#[cfg(not(underpass_loom))]
pub(crate) const MEMBERS: usize = 16;
/// How many threads of a domain can be enrolled in the region's queues: the bits of a word.
#[cfg(not(underpass_loom))]
pub(crate) const WAITERS: usize = 64;

// A model has few threads, and loom few steps.
#[cfg(underpass_loom)]
pub(crate) const MEMBERS: usize = 3;
#[cfg(underpass_loom)]
pub(crate) const WAITERS: usize = 2;

/// Words of a cache line.
pub(crate) const LINE: usize = 8;

/// The header: which layout, which type, how many words. Members compare what the exporter tells
/// them; this is for people who look at the memory.
pub(crate) const HEADER_VERSION: usize = 0;
pub(crate) const HEADER_SHAPE: usize = 1;
pub(crate) const HEADER_WORDS: usize = 2;
const HEADER: usize = if cfg!(underpass_loom) { LINE } else { 512 };

/// In a page: which waiters of the member others have signalled.
pub(crate) const BELL: usize = 0;
/// In a page, in the lower half of the word: whether the member's listener sleeps.
pub(crate) const ASLEEP: usize = LINE;
const RECORDS: usize = 2 * LINE;
/// A waiter's record has a line of its own.
const RECORD: usize = LINE;
/// A page of the host's for every 512 words.
const PAGE: usize =
    (RECORDS + WAITERS * RECORD).next_multiple_of(if cfg!(underpass_loom) { LINE } else { 512 });

/// In a waiter's record: the queue in which it waits, or 0.
pub(crate) const WANTS: usize = 0;
/// Its name: the wait's generation, and its key.
pub(crate) const NAME: usize = 1;
/// Its place in the order of the queue.
pub(crate) const TICKET: usize = 2;
/// The name that was signalled last.
pub(crate) const SIGNAL: usize = 3;

/// Where the objects begin.
pub(crate) const OBJECTS: usize = HEADER + MEMBERS * PAGE;

/// The page of `member`.
pub(crate) const fn page(member: usize) -> usize {
    assert!(member < MEMBERS);
    HEADER + member * PAGE
}

/// The record of a waiter.
pub(crate) const fn record(member: usize, waiter: usize) -> usize {
    assert!(waiter < WAITERS);
    page(member) + RECORDS + waiter * RECORD
}

/// Words of an object that has a word, tickets and a queue, in whole lines.
pub(crate) const QUEUED: usize = (QUEUE + MEMBERS).next_multiple_of(LINE);
/// In such an object: its tickets.
pub(crate) const TICKETS: usize = 1;
/// In such an object: its queue, with a word for each member.
pub(crate) const QUEUE: usize = 2;
/// Words of one count for each member.
pub(crate) const COUNTS: usize = MEMBERS.next_multiple_of(LINE);

const _: () = assert!(cfg!(underpass_loom) || (WAITERS == 64 && PAGE == 2 * 512 && QUEUED == 24));
