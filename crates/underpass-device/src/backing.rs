//! What a device is opened through.

use crate::DeviceError;
use crate::interrupts::counter::EventCounter;
use std::fmt;
use std::os::fd::BorrowedFd;
use underpass_os::{DeviceMemory, EventFd};
use underpass_threads::in_injected_task;

/// One region of registers.
#[derive(Debug)]
pub(crate) struct RegisterRegion {
    /// Bytes. 0: the device has no such region.
    pub(crate) size: u64,
    /// The parts that are mapped, and where each begins in the region. Everything else is reached
    /// by [`Backing::read`] and [`Backing::write`].
    pub(crate) mapped: Vec<(u64, DeviceMemory)>,
}

/// The way to a device. Nothing here trusts the device.
pub(crate) trait Backing: fmt::Debug + Send + Sync {
    /// The region of this number.
    fn region(&self, number: u32) -> Result<RegisterRegion, DeviceError>;

    /// Reads `width` bytes of a register. This may wait.
    fn read(&self, region: u32, offset: u64, width: usize) -> Result<u64, DeviceError>;

    /// Writes the lower `width` bytes of `value` to a register. In a handler this never waits.
    fn write(&self, region: u32, offset: u64, width: usize, value: u64) -> Result<(), DeviceError>;

    /// Lets the device access `memory`, which is all of `file`, as its addresses from `iova` on.
    fn map_dma(&self, iova: u64, memory: &DeviceMemory, file: BorrowedFd<'_>) -> Result<(), DeviceError>;

    /// The device can't access these addresses any more.
    fn unmap_dma(&self, iova: u64, len: u64) -> Result<(), DeviceError>;

    /// How many vectors the device has.
    fn vectors(&self) -> u32;

    /// A counter for the interrupts of a vector. The device counts nothing before
    /// [`set_interrupt`](Self::set_interrupt) or [`EventCounter::unmask`].
    fn counter(&self, _vector: u32) -> Result<EventCounter, DeviceError> {
        Ok(EventCounter::Own(EventFd::new()?))
    }

    /// Has a vector signal `events` from now on, or nothing.
    fn set_interrupt(&self, vector: u32, events: Option<&EventFd>) -> Result<(), DeviceError>;

    /// Puts the device into the state in which it was first opened.
    fn reset(&self) -> Result<(), DeviceError>;

    /// Uses the device no more.
    fn close(&self);

    /// The files by which another process can use the device, after the holder has opened it.
    fn files(&self) -> Vec<BorrowedFd<'_>>;

    /// Puts the device into the state in which it was first opened, although the driver that had
    /// these files has died, perhaps within a message. `turn` differs from driver to driver.
    fn reset_after(&self, turn: u16) -> Result<(), DeviceError>;

    /// Where the device is on the PCI bus of this machine, if it is there and that is known.
    fn address(&self) -> Option<&str>;

    /// A file whose peer is gone when the device is, if there is one.
    fn ends_with(&self) -> Option<BorrowedFd<'_>>;
}

/// In a handler, what may take the kernel long is refused.
pub(crate) fn may_wait(what: &'static str) -> Result<(), DeviceError> {
    if in_injected_task() { Err(DeviceError::InHandler(what)) } else { Ok(()) }
}
