//! User-level device drivers: registers, DMA memory, and interrupts as upcalls (Raven, section 4).
//!
//! *Decides:* how a domain opens a device ([`Device`]), maps its registers ([`Registers`]), shares
//! memory with it ([`DmaMemory`]), and hears of its interrupts ([`Interrupt`]). A driver is an
//! ordinary domain: it serves its clients through ordinary interfaces, and crashes alone.
//!
//! *Must not know:* channels and calls, nor what any device does. What a device says is untrusted
//! input. It costs its driver an error at the most ([`DeviceError`]).
//!
//! | folder | what is in it |
//! |---|---|
//! | `holder/` | a process that keeps a device and its memory while drivers come and go |
//! | `interrupts/` | the dispatcher, the gate of each vector, upcalls, adaptive waiting, storms |
//! | `vfio_user/` | devices that are other processes |
//! | `vhost_user/` | virtio devices that are other processes |
//!
//! *Read first:* the proof, which follows here from `README.md`. Then read `interrupts/gate.rs`.
#![doc = include_str!("README.md")]
#![forbid(unsafe_code)]

#[cfg(not(underpass_loom))]
mod backing;
#[cfg(not(underpass_loom))]
mod device;
#[cfg(not(underpass_loom))]
mod dma;
#[cfg(not(underpass_loom))]
mod error;
#[cfg(not(underpass_loom))]
mod holder;
mod interrupts;
#[cfg(not(underpass_loom))]
mod iova;
#[cfg(not(underpass_loom))]
mod lock;
#[cfg(not(underpass_loom))]
mod registers;
#[cfg(not(underpass_loom))]
mod uio;
#[cfg(not(underpass_loom))]
mod vfio_pci;
#[cfg(not(underpass_loom))]
pub mod vfio_user;
#[cfg(not(underpass_loom))]
pub mod vhost_user;

#[cfg(not(underpass_loom))]
pub use device::{Device, DeviceSource};
#[cfg(not(underpass_loom))]
pub use dma::DmaMemory;
#[cfg(not(underpass_loom))]
pub use error::DeviceError;
#[cfg(not(underpass_loom))]
pub use holder::device_holder::{DeviceHolder, DriverEnd};
#[cfg(not(underpass_loom))]
pub use holder::held_device::HeldDevice;
#[cfg(not(underpass_loom))]
pub use interrupts::affinity::InterruptAffinity;
#[cfg(not(underpass_loom))]
pub use interrupts::direct::DispatcherInterrupt;
#[cfg(not(underpass_loom))]
pub use interrupts::event::DeviceEvent;
#[cfg(not(underpass_loom))]
pub use interrupts::interrupt::{EnabledInterrupt, Interrupt};
#[cfg(not(underpass_loom))]
pub use interrupts::vector::{DeviceUpcall, InterruptCounts, InterruptOutcome};
#[cfg(not(underpass_loom))]
pub use interrupts::waiting::WaitingMode;
#[cfg(not(underpass_loom))]
pub use registers::Registers;
#[cfg(not(underpass_loom))]
pub use underpass_os::RegisterWord;

/// The gate of a vector, for its models.
#[cfg(underpass_loom)]
pub use interrupts::gate::{NextStep, VectorGate};
