//! The layout of a region: the ABI between two domains, in one place.
//!
//! ```text
//! byte 0      server's attention   written by the server when it sleeps, cleared by the client that wakes it
//! byte 8      server called        when and from where the client last woke a server that slept: written by the client, read by the server
//! byte 128    client's attention   as the server's, the other way round
//! byte 136    client called        as the server's, the other way round
//! byte 256    donation words       one for each CPU: written by the server's listener of that CPU, cleared by who donates
//! byte 512    taken                how many requests the server has taken: written by the server, read by the client when the binding ends
//! byte 640    wanted words         one for each slot: written by the client of a bounded call, read by its handler
//! byte 1152   kept words           one for each slot: written by the server that has mapped an annex, read by the client
//! byte 1664   request ring         LINES lines of 64 bytes: written by the client, read by the server
//!             reply ring           the same, the other way round
//! page        A-stacks             SLOTS areas of one size, one for each slot: written by whose turn it is
//! ```
//!
//! The size of the A-stacks follows from the interface, and so that of the region: each side works
//! it out by itself, from its own descriptor, and takes no word of the other's for it. Offsets are
//! counted in bytes. The words of a ring are 64 bits wide, an attention and a donation word are 32
//! bits wide.

use crate::cell::INLINE;
use underpass_wire::astack;

/// The version of this layout; two domains must agree on it.
pub const VERSION: u32 = 14;

/// Slots of a channel, and so the most calls at once over one channel.
pub const SLOTS: u32 = 64;

/// The most channels of a binding: one, and one more each time that two activations of the client
/// contend for one. A server closes the binding of who asks for more.
pub const CHANNELS: usize = 16;

/// Lines of a ring: twice as many as slots, for a reason that the proof gives (`README.md`,
/// *Room*).
pub const LINES: u32 = 2 * SLOTS;

/// Bytes of a line: one cache line. A cell lies in one.
pub const LINE: usize = 64;

/// Words of 64 bits in a line.
pub const LINE_WORDS: usize = LINE / 8;

/// Bytes of an A-stack where not all that travels is of a fixed size, unless the interface says
/// otherwise.
pub const STACK: usize = astack::DEFAULT;

/// The most bytes of an A-stack.
pub const LARGEST_STACK: usize = astack::LARGEST;

/// The most bytes of arguments or results, out of band.
pub const LARGEST: u64 = 4 << 30;

/// The least and the most bytes of an annex: what is larger travels in a file that is made for it
/// alone.
pub const OVERFLOW_SIZES: std::ops::RangeInclusive<usize> = 64 << 10..=64 << 20;

/// The most bytes of all annexes of a channel.
pub const OVERFLOW_TOTAL: usize = 128 << 20;

/// The most open files of the arguments of one call, or of its result.
pub const FILES: usize = 64;

/// The most open files that wait for their messages at one end of a channel. What comes beyond is
/// closed, and its call told.
pub const FILES_WAITING: usize = 4 * FILES;

/// Where the server's attention word lies. Two lines to a word: the prefetcher fetches lines in
/// pairs.
pub const SERVER_ATTENTION: usize = 0;

/// Where the client's attention word lies.
pub const CLIENT_ATTENTION: usize = 128;

/// How far behind an attention word lies the stamp of the call that last woke its owner: who calls
/// has that line.
pub const LAST_WAKE: usize = 8;

/// Where the donation words begin.
pub const DONATIONS: usize = 256;

/// Donation words: processors of CPUs beyond are not donated.
pub const DONATION_WORDS: usize = 64;

/// Where the server counts the requests that it has taken, on lines that nobody else touches while
/// the binding lives.
pub const TAKEN: usize = DONATIONS + 4 * DONATION_WORDS;

/// Where the words begin by which a client says how long it wants a call.
pub const CANCEL_WORDS: usize = TAKEN + 2 * LINE;

/// Where the words begin by which a server says which annex of a slot it has mapped.
pub const MAPPED_OVERFLOW: usize = CANCEL_WORDS + 8 * SLOTS as usize;

/// Where the request ring begins.
pub const REQUESTS: usize = MAPPED_OVERFLOW + 8 * SLOTS as usize;

/// Where the reply ring begins.
pub const REPLIES: usize = REQUESTS + RING;

/// Where the A-stacks begin.
pub const STACKS: usize = (REPLIES + RING).next_multiple_of(PAGE);

/// Bytes of a region whose A-stacks have [`STACK`] bytes.
pub const REGION: usize = region(STACK);

/// Bytes of the A-stacks of an interface whose procedures want so many at the most: whole cache
/// lines; none where all fits into cells.
pub const fn stack_of(wanted: usize) -> usize {
    if wanted <= INLINE {
        0
    } else if wanted < LARGEST_STACK {
        wanted.next_multiple_of(LINE)
    } else {
        LARGEST_STACK
    }
}

/// Bytes of a region whose A-stacks have `stack` bytes, a result of [`stack_of`]. Only pages that
/// were touched cost memory.
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
        "the sizes themselves are some"
    );
    assert!(DONATIONS >= CLIENT_ATTENTION + 2 * LINE, "donations disturb no attention");
    assert!(
        TAKEN.is_multiple_of(2 * LINE) && CANCEL_WORDS.is_multiple_of(2 * LINE),
        "the count has a pair of lines of its own"
    );
    assert!(CLIENT_ATTENTION >= SERVER_ATTENTION + 2 * LINE, "the attentions don't share a pair of lines");
};
