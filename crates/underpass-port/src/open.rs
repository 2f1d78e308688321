//! How a sender gets its lane: an internal interface, exported under the port's name.

use crate::__private::CallError;
use crate::described::DescribedMessages;
use std::error::Error;
use std::fmt;
use std::os::fd::OwnedFd;
use underpass_macros::{Wire, interface};
use underpass_wire::{Schema, Types};

/// The interface of every port.
#[interface(crate = crate)]
pub(crate) trait PortOpen {
    /// Makes a lane for the caller.
    ///
    /// `port`: the hash of the type of the messages. `light`: whether barriers reach the caller.
    /// `room`: the socket by which the owner rings when there is room.
    fn open(&self, port: u64, light: bool, room: OwnedFd) -> Result<Opened, OpenError>;

    /// Does nothing. Its error says why a binding has ended.
    fn ask(&self) -> Result<(), CallError>;

    /// The type of the messages.
    #[underpass(since = 2)]
    fn messages(&self) -> Result<DescribedMessages, CallError>;
}

/// A lane, as its sender gets it.
#[derive(Debug, Wire)]
#[underpass(crate = crate)]
pub(crate) struct Opened {
    pub(crate) lane: u64,
    pub(crate) items: u64,
    pub(crate) longest: u64,
    pub(crate) bytes: u64,
    pub(crate) drop_oldest: bool,
    /// Whether barriers reach both domains.
    pub(crate) light: bool,
    pub(crate) memory: OwnedFd,
    /// The socket by which the sender rings when there are messages.
    pub(crate) bell: OwnedFd,
}

/// Why there is no lane.
#[derive(Debug, Wire)]
#[underpass(crate = crate)]
pub(crate) enum OpenError {
    Call(CallError),
    Refused(OpenRefused),
}

impl From<CallError> for OpenError {
    fn from(e: CallError) -> Self {
        Self::Call(e)
    }
}

/// Why an owner refuses a sender a lane.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
#[underpass(crate = crate)]
pub enum OpenRefused {
    /// The port carries messages of another type. *Remedy:* build both sides from the same source.
    AnotherType,
    /// The lanes of the sender's user take as much memory as they may
    /// ([`PortOptions::memory_of_user`](crate::PortOptions::memory_of_user)). *Remedy:* drop other
    /// senders, or have the owner raise the limit.
    MemoryOfUser,
    /// The port has no receivers any more.
    NoReceivers,
    /// The owner has no memory or no open files left; the text says which.
    NoResources(String),
}

impl fmt::Display for OpenRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AnotherType => {
                f.write_str("its messages have another type; build both sides from the same source")
            }
            Self::MemoryOfUser => f.write_str(
                "the lanes of this user take as much memory as they may; drop other senders, or see \
                 `PortOptions::memory_of_user`",
            ),
            Self::NoReceivers => f.write_str("the port has no receivers any more"),
            Self::NoResources(why) => write!(f, "its domain has no room: {why}"),
        }
    }
}

impl Error for OpenRefused {}

/// A hash over all that both sides must agree on about the messages (FNV-1a, 64 bits).
pub(crate) fn hash_of<T: Schema>() -> u64 {
    let mut types = Types::new();
    let name = T::schema(&mut types);
    let text = format!("underpass port 1\n{}\n{:?}", name.as_str(), types.finish());
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
