//! A process that keeps a device and its memory while drivers come and go.
#![doc = include_str!("holder/README.md")]

pub(crate) mod device_holder;
pub(crate) mod held_device;
mod hold_message;
