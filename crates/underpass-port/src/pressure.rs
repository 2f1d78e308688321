//! How much waits in a port.

use std::time::Duration;

/// How much waits in a port, or in a sender's lane of it, at one moment. Nothing here is a promise:
/// some of it is what the other side says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressure {
    /// Messages that were sent and not received.
    pub queued: u64,
    /// The most messages that may wait.
    pub capacity: u64,
    /// How long the oldest of them has waited, to a few ms. `None` if none waits, or if this side
    /// doesn't know.
    pub oldest: Option<Duration>,
    /// The lanes that this counts: 1 for a sender.
    pub lanes: usize,
    /// How often this side has rung for the other side since it exists: its kernel interactions. It
    /// rings only for a side that waits.
    pub rings: u64,
    /// What the other side does. A receiver has many other sides: it sees `Runs` if there are any.
    pub other_side: OtherSide,
}

/// What the other side of a lane does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherSide {
    /// It runs, or does something else than wait for this port.
    Runs,
    /// It waits for a message: of this port, or of a synchronous port's whole domain.
    Waits,
    /// Its process is stopped (`SIGSTOP`, or a debugger).
    Stopped,
    /// It has ended, or there is none.
    Gone,
}
