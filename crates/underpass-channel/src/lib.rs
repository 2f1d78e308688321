//! Data transfer: the pair-wise shared memory of a binding, its two rings, its A-stacks and its two
//! bells.
//!
//! *Decides:* the layout of a region ([`layout`]), what a cell holds ([`Cell`]), how cells and
//! bytes cross without either side trusting the other, and when a bell must ring. It is passive: it
//! says that a ring is empty or a pool is exhausted, and never waits.
//!
//! *Must not know:* threads, processors, bindings, calls.
//!
//! *Read first:* the proof below, then `ring.rs`.
#![doc = include_str!("README.md")]

#[cfg(not(underpass_loom))]
mod annex;
mod attention;
mod blob;
mod cell;
#[cfg(not(underpass_loom))]
mod channel;
mod copied;
#[cfg(not(underpass_loom))]
mod copying;
mod donation;
mod laps;
pub mod layout;
mod lines;
mod payload;
#[cfg(not(underpass_loom))]
mod region;
mod ring;
mod slots;
mod wanted;
mod words;

#[cfg(not(underpass_loom))]
pub use annex::{Annex, AnnexSource, AnnexView};
pub use attention::{Attention, Bell, Fence};
pub use blob::{BlobSink, BlobSource};
pub use cell::{Cell, Head, INLINE, Ids, Place};
#[cfg(not(underpass_loom))]
pub use channel::{Channel, Side};
pub use copied::{Copied, copied};
pub use donation::{Donation, Donee, Owed};
pub use payload::{Payload, PayloadSink};
#[cfg(not(underpass_loom))]
pub use region::{Region, RegionSink, RegionSource, RegionView};
pub use ring::{Coming, Damaged, Receiving, Sending};
pub use slots::{Slot, Slots};
pub use wanted::{Taken, Wanted};
pub use words::{Boxed, Line, Words};
