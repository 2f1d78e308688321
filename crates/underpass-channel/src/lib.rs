//! Data transfer: the pair-wise shared memory of a binding, with two rings, the A-stacks and two
//! doorbells.
//!
//! *Decides:* the layout of a region ([`layout`]), what a cell holds ([`Cell`]), how cells and
//! bytes cross without either side trusting the other, and when a poster must ring the doorbell. It
//! is passive: it reports that a ring is empty or that a pool is exhausted, and never waits.
//!
//! *Must not know:* threads, processors, bindings, calls.
//!
//! *Read first:* the proof below, then `ring.rs`.
#![doc = include_str!("README.md")]

mod attention;
mod cancel_word;
mod cell;
#[cfg(not(underpass_loom))]
mod channel;
mod copy_counts;
mod donation;
mod lane;
pub mod layout;
#[cfg(not(underpass_loom))]
mod opaque_copy;
#[cfg(not(underpass_loom))]
mod overflow;
mod payload;
mod payload_file;
#[cfg(not(underpass_loom))]
mod region;
mod ring;
mod ring_lines;
mod ring_memory;
mod rows;
mod slots;
mod tag;
mod window;

pub use attention::{Attention, Doorbell, Fence};
pub use cancel_word::{CancelWord, SectionWords, TakenCount, Wanted};
pub use cell::{Cell, Head, INLINE, Ids, PayloadPlace};
#[cfg(not(underpass_loom))]
pub use channel::{Channel, Side};
pub use copy_counts::{Copied, copied};
pub use donation::{Donation, Donee, Owed};
#[cfg(not(underpass_loom))]
pub use lane::MappedLane;
pub use lane::{
    BadLaneSizes, BellByte, BellByteNews, COUNTS, HeapLane, LaneEnd, LaneHead, LaneMemory, LaneReceiver,
    LaneSender, LaneSizes, LaneWord, Reservation, Unposted, WhenFull,
};
#[cfg(not(underpass_loom))]
#[doc(hidden)] // For memory that more than two domains share.
pub use opaque_copy::copy as opaque_copy;
#[cfg(not(underpass_loom))]
pub use overflow::{OverflowBuffer, OverflowSource, OverflowView};
pub use payload::{Payload, PayloadSink};
pub use payload_file::{PayloadFileSink, PayloadFileSource};
#[cfg(not(underpass_loom))]
pub use region::{Region, RegionSink, RegionSource, RegionView};
pub use ring::{Malformed, PeekedCell, Receiving, Sending};
pub use ring_memory::{CacheLine, HeapMemory, RingMemory};
pub use rows::{NoRow, RowUse, Rows};
pub use slots::{Slot, Slots};
pub use tag::Tag;
