//! A lane: a queue of messages from one domain to another, in a memory file of its own. It has one
//! sender and one receiver, and no replies. Ports and streams are made of lanes.
//!
//! The receiver makes the memory, and passes the file. Neither end trusts what the other can write.
#![doc = include_str!("lane/README.md")]

mod bell_byte;
mod memory;
mod receiver;
mod sender;
mod sizes;
#[cfg(all(test, not(underpass_loom)))]
mod tests;

#[cfg(not(underpass_loom))]
mod mapped;

pub use bell_byte::{BellByte, BellByteNews};
#[cfg(not(underpass_loom))]
pub use mapped::MappedLane;
pub use memory::{COUNTS, HeapLane, LaneEnd, LaneMemory, LaneWord};
pub use receiver::{LaneHead, LaneReceiver};
pub use sender::{LaneSender, Reservation, Unposted};
pub use sizes::{BadLaneSizes, LaneSizes, WhenFull};
