//! The sizes of a lane. Both ends compute the layout from them, and neither reads them from memory.

use std::error::Error;
use std::fmt;

/// Bytes of the head of a record, and the unit in which records are laid out.
pub(crate) const HEAD: usize = 16;

/// Offset of the ring. The words of the two ends lie before it.
pub(crate) const RING: usize = 1024;

/// The most messages that may be under way on a lane.
const MOST_ITEMS: usize = 1 << 20;

/// The most bytes of a ring.
const MOST_BYTES: usize = 1 << 30;

/// What a sender does when a lane is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits or fails, as its caller chose.
    Refuse,
    /// It gives up the oldest messages. The receiver is told how many it has lost, in place.
    DropOldest,
}

/// The sizes of a lane. They are fixed when it is made.
///
/// # Examples
/// ```
/// use underpass_channel::{LaneSizes, WhenFull};
///
/// let sizes = LaneSizes::new(100, 32, WhenFull::Refuse)?;
/// assert_eq!((sizes.items(), sizes.longest()), (100, 32));
/// assert!(LaneSizes::new(0, 32, WhenFull::Refuse).is_err());
/// # Ok::<(), underpass_channel::BadLaneSizes>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSizes {
    items: usize,
    longest: usize,
    bytes: usize,
    when_full: WhenFull,
}

/// No lane can have these sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLaneSizes;

impl fmt::Display for BadLaneSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no lane has such sizes: it has 1 to {MOST_ITEMS} messages (2 at least if it drops the oldest), and \
             {MOST_BYTES} bytes at most; ask for fewer or shorter messages"
        )
    }
}

impl Error for BadLaneSizes {}

impl LaneSizes {
    /// A lane for `items` messages of at most `longest` bytes each, all of which may be as long as
    /// that at once.
    ///
    /// # Errors
    /// [`BadLaneSizes`] if that is too much or too little.
    pub fn new(items: usize, longest: usize, when_full: WhenFull) -> Result<Self, BadLaneSizes> {
        let room = longest.checked_add(2 * HEAD - 1).and_then(|record| record.checked_mul(items));
        Self::with_bytes(items, longest, room.ok_or(BadLaneSizes)?, when_full)
    }

    /// A lane for `items` messages of at most `longest` bytes each, and for at least `bytes` bytes
    /// of all of them together with their heads.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_bytes(
        items: usize,
        longest: usize,
        bytes: usize,
        when_full: WhenFull,
    ) -> Result<Self, BadLaneSizes> {
        let least_items = if when_full == WhenFull::DropOldest { 2 } else { 1 };
        if !(least_items..=MOST_ITEMS).contains(&items) || longest > MOST_BYTES / 4 || bytes > MOST_BYTES {
            return Err(BadLaneSizes);
        }
        let bytes = bytes.max(2 * record(longest)).next_power_of_two();
        (bytes <= MOST_BYTES).then_some(Self { items, longest, bytes, when_full }).ok_or(BadLaneSizes)
    }

    /// How many messages may be under way.
    pub fn items(&self) -> usize {
        self.items
    }

    /// The most bytes of a message.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Bytes of the ring.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What a sender does when the lane is full.
    pub fn when_full(&self) -> WhenFull {
        self.when_full
    }

    /// Bytes of the memory file.
    pub fn memory(&self) -> usize {
        (RING + self.bytes).next_multiple_of(4096)
    }
}

/// Bytes of the record of a message of `len` bytes.
#[inline]
pub(crate) fn record(len: usize) -> usize {
    HEAD + len.next_multiple_of(HEAD)
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    #[test]
    fn all_messages_fit_at_once_however_long() {
        for (items, longest) in [(1, 0), (1, 1), (2, 16), (3, 17), (100, 32), (7, 65_536), (1 << 20, 40)] {
            let sizes = LaneSizes::new(items, longest, WhenFull::Refuse).unwrap();
            assert!(sizes.bytes() >= items * record(longest) && sizes.bytes().is_power_of_two());
            assert!(sizes.bytes() >= 2 * record(longest));
        }
    }

    #[test]
    fn sizes_that_no_lane_has_are_refused() {
        for (items, longest) in
            [(0, 1), (MOST_ITEMS + 1, 1), (1, usize::MAX), (1 << 20, 1 << 20), (1, 1 << 29)]
        {
            assert_eq!(LaneSizes::new(items, longest, WhenFull::Refuse), Err(BadLaneSizes));
        }
        assert_eq!(LaneSizes::new(1, 8, WhenFull::DropOldest), Err(BadLaneSizes));
    }
}
