//! A user-level driver for virtio disks: without a virtual machine, over vhost-user, against a
//! process such as `qemu-storage-daemon`. `underpass_nvme::DiskService` serves it to clients.
//!
//! *Decides:* how the disk is started and reset, and how requests lie in its queue.
//!
//! *Must not know:* through what the device is reached, nor how its interrupts come.
//!
//! What the disk writes is untrusted input. An element of the used ring says which request has
//! ended; that is looked up among the requests under way, and never used as a position. Each wait
//! has a deadline.
//!
//! *Read first:* `disk.rs`, then `ring.rs`.
#![forbid(unsafe_code)]

mod disk;
mod error;
mod registers;
mod ring;

pub use disk::{VirtioDisk, VirtioDiskOptions};
pub use error::VirtioError;
