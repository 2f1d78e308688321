//! What a receiver gets.

use std::fmt;

/// A sender, as a receiver sees it. No other sender of this port has or had the same: a domain that
/// connects again is another sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SenderId {
    pub(crate) lane: u64,
    pub(crate) binding: u64,
}

impl SenderId {
    /// The number of the sender's lane: the senders of a port are numbered from 1 as they connect.
    pub fn lane(self) -> u64 {
        self.lane
    }

    /// The number of the sender's binding ([`Binding::id`](underpass_rpc::Binding::id)). The owner
    /// finds out by it who the sender is, and revokes it.
    pub fn binding(self) -> u64 {
        self.binding
    }
}

impl fmt::Display for SenderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sender {}", self.lane)
    }
}

/// What has come over a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival<T> {
    /// A message.
    Message(PortMessage<T>),
    /// A lane has ended: no further message comes from its sender.
    Ended(LaneEnded),
}

/// A message, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMessage<T> {
    /// What was sent.
    pub message: T,
    /// Its sender.
    pub from: SenderId,
    /// How many messages of this sender came before it. Those that were lost count.
    pub number: u64,
    /// How many messages of this sender were lost between the previous one and this one. Always 0
    /// unless the port [drops the oldest](crate::PortOptions::drop_oldest).
    pub lost: u64,
}

/// The end of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneEnded {
    /// The sender whose lane it was.
    pub from: SenderId,
    /// Why it has ended.
    pub why: WhyEnded,
    /// How many messages of this sender were received or lost.
    pub messages: u64,
}

/// Why a lane has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyEnded {
    /// The sender was dropped. All of its messages were received.
    Finished,
    /// The sending domain has died. What it had posted was received.
    PeerDied,
    /// The owner has revoked the binding, or it has expired.
    Revoked,
    /// The sender has broken the rules: its memory made no sense, or a message was no value of the
    /// port's type.
    Malformed,
}

impl<T> Arrival<T> {
    /// The message, if it is one.
    pub fn into_message(self) -> Option<T> {
        match self {
            Self::Message(message) => Some(message.message),
            Self::Ended(_) => None,
        }
    }

    /// The sender that it is about.
    pub fn from(&self) -> SenderId {
        match self {
            Self::Message(message) => message.from,
            Self::Ended(ended) => ended.from,
        }
    }
}
