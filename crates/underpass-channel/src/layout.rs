//! The layout of a region: the ABI between two domains, in one place.
//!
//! ```text
//! byte 0      server's attention    set by the server when it sleeps, cleared by the client that wakes it
//! byte 128    client's attention    set by the client when it sleeps, cleared by the server that wakes it
//! byte 256    donation words        one for each CPU: set by the server's listener of that CPU, cleared by the donor
//! byte 512    taken                 how many requests the server has taken: written by the server
//! byte 640    cancel words          one for each slot: written by the client of a bounded call, read by its handler
//! byte 1152   mapped overflow       one for each slot: the overflow buffer that the server has mapped, written by it
//! byte 1664   request ring          LINES lines of 64 bytes: written by the client, read by the server
//!             reply ring            LINES lines of 64 bytes: written by the server, read by the client
//!             section numbers       SECTION_NUMBERS for each slot: written by the client of a numbered call. The
//!                                   server writes the first one when a call that collects late answers
//!                                   returns: the number of the call whose answer it is
//! page        A-stacks              SLOTS areas of one size: written by the client for a call, then by the server
//! ```
//!
//! The size of the A-stacks follows from the version of the interface that both sides know, and the
//! size of the region from that. Each side computes both from its own descriptor and never asks the
//! other side. Offsets are in bytes.
//! The words of a ring have 64 bits; attention and donation words have 32 bits.

use crate::cell::INLINE;
use underpass_wire::astack;

/// The version of this layout; two domains must agree on it.
pub const VERSION: u32 = 16;

/// The procedure of a bounded call without arguments that collects a late answer. No interface has
/// so many procedures.
pub const COLLECT: u16 = u16::MAX;

/// Slots of a channel: the most calls under way at once over one channel.
pub const SLOTS: u32 = 64;

/// The most channels of a connection. It has one, and one more each time that two activations of
/// the client contend for one. If a client asks for more, the server closes the connection.
pub const CHANNELS: usize = 16;

/// Lines of a ring: twice as many as slots. The proof gives the reason (`README.md`, *Room*).
pub const LINES: u32 = 2 * SLOTS;

/// Bytes of a line of a ring: one cache line, which holds one cell.
pub const LINE: usize = 64;

/// Words of 64 bits in a line.
pub const LINE_WORDS: usize = LINE / 8;

/// Bytes of an A-stack if a message of the interface has no fixed size, unless the interface says
/// otherwise.
pub const STACK: usize = astack::DEFAULT;

/// The most bytes of an A-stack.
pub const LARGEST_STACK: usize = astack::LARGEST;

/// The most bytes of arguments or results that travel out of band.
pub const LARGEST: u64 = 4 << 30;

/// The least and the most bytes of an overflow buffer. A larger message travels in a payload file
/// of its own.
pub const OVERFLOW_SIZES: std::ops::RangeInclusive<usize> = 64 << 10..=64 << 20;

/// The most bytes of all overflow buffers of a channel.
pub const OVERFLOW_TOTAL: usize = 128 << 20;

/// The most open files of the arguments of one call, or of its result.
pub const FILES: usize = 64;

/// The most open files that wait for their messages at one end of a channel. Further files are
/// closed, and their calls fail.
pub const FILES_WAITING: usize = 4 * FILES;

/// Offset of the server's attention word. Each attention word has a pair of cache lines to itself,
/// because the prefetcher fetches lines in pairs.
pub const SERVER_ATTENTION: usize = 0;

/// Offset of the client's attention word.
pub const CLIENT_ATTENTION: usize = 128;

/// Offset of the first donation word.
pub const DONATIONS: usize = 256;

/// The number of donation words. The processor of a CPU with a higher number is never donated.
pub const DONATION_WORDS: usize = 64;

/// Offset of the count of the requests that the server has taken. Nothing else is on this pair of
/// cache lines while the binding lives.
pub const TAKEN: usize = DONATIONS + 4 * DONATION_WORDS;

/// Offset of the first word in which the client says until when it wants a call.
pub const CANCEL_WORDS: usize = TAKEN + 2 * LINE;

/// Offset of the first word in which the server says which overflow buffer of a slot it has mapped.
pub const MAPPED_OVERFLOW: usize = CANCEL_WORDS + 8 * SLOTS as usize;

/// Offset of the request ring.
pub const REQUESTS: usize = MAPPED_OVERFLOW + 8 * SLOTS as usize;

/// Offset of the reply ring.
pub const REPLIES: usize = REQUESTS + RING;

/// How many numbers of sections a call carries at the most.
pub const SECTION_NUMBERS: usize = 4;

/// Offset of the first section number. They lie behind the rings, so that calls without them touch
/// no page of theirs.
pub const SECTIONS: usize = REPLIES + RING;

/// Offset of the first A-stack.
pub const STACKS: usize = (SECTIONS + 8 * SECTION_NUMBERS * SLOTS as usize).next_multiple_of(PAGE);

/// Bytes of a region whose A-stacks have [`STACK`] bytes.
pub const REGION: usize = region(STACK);

/// Bytes of an A-stack for an interface whose largest message has `wanted` bytes, in whole cache
/// lines. 0 if all messages fit into cells.
pub const fn stack_of(wanted: usize) -> usize {
    if wanted <= INLINE {
        0
    } else if wanted < LARGEST_STACK {
        wanted.next_multiple_of(LINE)
    } else {
        LARGEST_STACK
    }
}

/// Bytes of an A-stack of a connection whose first interface has a largest message of `wanted`
/// bytes. Later interfaces share the A-stacks.
pub const fn stack_of_connection(wanted: usize) -> usize {
    if wanted <= STACK { STACK } else { stack_of(wanted) }
}

/// Bytes of a region whose A-stacks have `stack` bytes, a result of [`stack_of`]. Only pages that
/// were touched take memory.
pub const fn region(stack: usize) -> usize {
    STACKS + (SLOTS as usize * stack).next_multiple_of(PAGE)
}

const RING: usize = LINES as usize * LINE;
const PAGE: usize = 4096;

const _: () = {
    assert!(LINES.is_power_of_two(), "positions wrap by a mask");
    assert!(REQUESTS.is_multiple_of(LINE) && REPLIES.is_multiple_of(LINE), "a line is one cache line");
    assert!(STACKS.is_multiple_of(PAGE) && REGION.is_multiple_of(PAGE), "A-stacks are pages of their own");
    assert!(
        stack_of(STACK) == STACK && stack_of(usize::MAX) == LARGEST_STACK,
        "the default and the largest size are valid sizes"
    );
    assert!(
        DONATIONS >= CLIENT_ATTENTION + 2 * LINE,
        "no donation word shares cache lines with an attention word"
    );
    assert!(
        TAKEN.is_multiple_of(2 * LINE) && CANCEL_WORDS.is_multiple_of(2 * LINE),
        "the count has a pair of lines of its own"
    );
    assert!(CLIENT_ATTENTION >= SERVER_ATTENTION + 2 * LINE, "the attentions don't share a pair of lines");
};
