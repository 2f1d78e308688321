//! A user-level driver for NVMe disks. It is an ordinary domain over `underpass::device`: it serves
//! its clients through an ordinary interface ([`BlockDevice`]), and crashes alone.
//!
//! *Decides:* how a controller is started and stopped, how commands are submitted and their
//! completions matched, and how long each may take.
//!
//! *Must not know:* through what the device is reached, nor how its interrupts come.
//!
//! What the disk writes is untrusted input. A completion says which command it is for; that is
//! looked up among the commands under way, and never used as a position. Each wait has a deadline.
//!
//! If the device has a holder, writes that were under way when a driver died are repeated by the
//! next one, before it serves anybody: see the proof in `README.md`.
//!
//! *Read first:* `queue.rs`, then `controller.rs`.
#![forbid(unsafe_code)]

mod block;
mod command;
mod controller;
mod disk;
mod error;
mod places;
mod queue;
mod queue_state;
mod registers;
mod service;
mod write_log;

pub use block::{BlockDevice, BlockDeviceClient, BlockError, BlockInfo};
pub use disk::{DiskCounts, DiskOptions, NvmeDisk};
pub use error::NvmeError;
pub use service::{BlockDriver, DiskService};
