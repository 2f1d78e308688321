//! What a call does when the A-stacks are leased that its interface counts on.

use underpass_channel::layout::SLOTS;

/// What a call does when as many A-stacks of its channel are leased as the interface expects calls
/// at once: five, unless a procedure says `#[underpass(calls = N)]` (LRPC, 5.2).
///
/// # Examples
/// ```
/// use underpass_rpc::AllLeased;
/// assert_eq!(AllLeased::default(), AllLeased::Grow);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllLeased {
    /// It takes one more, up to the 64 that a channel has room for; then it waits. A-stacks that
    /// were never needed take no memory.
    #[default]
    Grow,
    /// It waits until one is given back, or until its deadline, which then makes it
    /// [`Overloaded`](crate::CallError::Overloaded).
    Wait,
    /// It fails at once, with [`Overloaded`](crate::CallError::Overloaded).
    Fail,
}

/// How a call leases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leasing {
    /// Leased A-stacks from which on there is none for it.
    pub(crate) most: u32,
    pub(crate) waits: bool,
}

impl Leasing {
    /// As its caller chose, where the interface expects so many `calls` at once.
    pub(crate) fn new(choice: AllLeased, calls: u32) -> Self {
        match choice {
            AllLeased::Grow => Self { most: SLOTS, waits: true },
            AllLeased::Wait => Self { most: calls.min(SLOTS), waits: true },
            AllLeased::Fail => Self { most: calls.min(SLOTS), waits: false },
        }
    }
}

const _: () = assert!(underpass_wire::astack::MOST_CALLS == SLOTS, "as many calls as there are slots");
