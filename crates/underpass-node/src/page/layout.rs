//! Where the words of a page lie. The README's table says who writes them.

/// The bytes of a page.
pub const LEN: usize = 8192;

/// How many places there are: the server's, and those of domains.
pub const PLACES: usize = 126;

/// The place of the server.
pub const SERVER: usize = 0;

/// The version of this layout and of the messages about it. A server and a domain of different
/// versions do without each other.
pub const LAYOUT_VERSION: u32 = 1;

/// The owner's words.
pub mod head {
    /// The size of the ready queue.
    pub const READY: usize = 0;
    /// Since when the ready queue has not been empty, in ns of the monotonic clock. It says nothing
    /// while the queue is empty.
    pub const WAITING_SINCE: usize = 1;
    /// How many activations run.
    pub const RUNNING: usize = 2;
    /// 1 while the domain goes by its local invariant alone.
    pub const ALONE: usize = 3;
    /// How many activations wait for a processor.
    pub const PARKED: usize = 4;
    /// The CPU of the processor that the domain has given last, and one more. 0: it is not known.
    pub const GAVE_CPU: usize = 5;
    /// In the server's page: it grows while the server lives and any domain wants a processor.
    pub const HEARTBEAT: usize = 8;
    /// In the server's page: how many domains want a processor.
    pub const WANTED: usize = 9;
}

/// The words of a row.
pub mod row {
    /// Given for good.
    pub const GIVEN: usize = 0;
    /// Lent, or given back.
    pub const LENT_GIVEN: usize = 1;
    /// Taken for good.
    pub const TAKEN: usize = 2;
    /// Borrowed, or taken back.
    pub const LENT_TAKEN: usize = 3;
    /// Which domain is there.
    pub const LINK: usize = 4;
    /// What the owner wants of that domain.
    pub const ASKED: usize = 5;
    /// What that domain sleeps on.
    pub const BELL: usize = 6;
    /// In the server's page: for which domain it has asked that one last, and the number of the
    /// ask.
    pub const BENEFICIARY: usize = 7;
}

const WORDS_OF_ROW: usize = 8;
const FIRST_ROW: usize = 16;
const _: () = assert!((FIRST_ROW + PLACES * WORDS_OF_ROW) * 8 == LEN);
/// A sleep watches the bells of all other places.
const _: () = assert!(PLACES <= 128);

/// The number of a word of the row of `place`.
///
/// # Panics
/// If there is no such place.
#[inline]
pub const fn at(place: usize, word: usize) -> usize {
    assert!(place < PLACES && word < WORDS_OF_ROW);
    FIRST_ROW + place * WORDS_OF_ROW + word
}

/// For how long a processor changes hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferKind {
    /// Until it is given on.
    Kept,
    /// For the time of a blocking call. The lender asks the borrower first when it needs one again.
    Lent,
}

impl TransferKind {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Kept, Self::Lent];

    /// The number of the word of what was given to `place`.
    #[inline]
    pub const fn given(self, place: usize) -> usize {
        at(place, if matches!(self, Self::Kept) { row::GIVEN } else { row::LENT_GIVEN })
    }

    /// The number of the word of what was taken from `place`.
    #[inline]
    pub const fn taken(self, place: usize) -> usize {
        at(place, if matches!(self, Self::Kept) { row::TAKEN } else { row::LENT_TAKEN })
    }
}
