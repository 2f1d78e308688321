//! Devices in other processes: the vfio-user protocol, over a Unix stream.

#[cfg(not(underpass_loom))]
pub(crate) mod client;
#[cfg(not(underpass_loom))]
pub(crate) mod connection;
pub mod message;
