//! What a call does when the interface's expected number of A-stacks is leased.

use crate::call::client::SHARE;
use crate::call::slot_queue::SlotWish;
use underpass_channel::Tag;
use underpass_channel::layout::SLOTS;

/// What a call does when as many A-stacks of its channel are leased as the interface expects calls
/// at once: five, unless a procedure says `#[underpass(calls = N)]` (LRPC, 5.2).
///
/// # Examples
/// ```
/// use underpass::AllLeased;
/// assert_eq!(AllLeased::default(), AllLeased::Grow);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllLeased {
    /// The call leases one more, up to the 64 for which a channel has room. If its connection has
    /// other bindings, up to 32. Beyond them it waits.
    /// A-stacks that were never needed take no memory.
    #[default]
    Grow,
    /// The call waits until one is given back. If its deadline comes first, it fails with
    /// [`Overloaded`](crate::CallError::Overloaded).
    Wait,
    /// The call fails at once, with [`Overloaded`](crate::CallError::Overloaded).
    Fail,
}

/// How a call leases its slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leasing {
    /// The call gets a slot only while fewer A-stacks than this are leased.
    pub(crate) most: u32,
    /// It gets one without a look at the share of its row while fewer than this are leased.
    pub(crate) soon: u32,
    pub(crate) waits: bool,
}

impl Leasing {
    /// The same, as what a caller over `row` needs.
    pub(crate) fn wish(self, row: Tag) -> SlotWish {
        SlotWish { most: self.most, row }
    }

    /// What the caller chose, for an interface that expects `calls` at once.
    pub(crate) fn new(choice: AllLeased, calls: u32) -> Self {
        let (most, waits) = match choice {
            AllLeased::Grow => (SLOTS, true),
            AllLeased::Wait => (calls.min(SLOTS), true),
            AllLeased::Fail => (calls.min(SLOTS), false),
        };
        Self { most, soon: most.min(SHARE), waits }
    }
}

const _: () = assert!(underpass_wire::astack::MOST_CALLS == SLOTS, "as many calls as there are slots");
