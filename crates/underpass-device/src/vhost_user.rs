//! Virtio devices that are other processes, behind a vhost-user socket.

pub(crate) mod client;
pub(crate) mod connection;
pub mod message;
mod virtio_registers;
