//! Devices by the kernel's UIO, behind no IOMMU.

use crate::DeviceError;
use crate::backing::{Backing, RegisterRegion, may_wait};
use crate::interrupts::counter::EventCounter;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use underpass_os::{DeviceMemory, EventFd, UioDevice};
use underpass_threads::blocking;

/// What tells of all such devices.
pub(crate) const ALL: &str = "/sys/class/uio";

const NO_IOMMU: DeviceError =
    DeviceError::Unsupported("IOMMU between it and the memory; for DMA, give it to vfio-pci");
const NOT_MAPPED: DeviceError = DeviceError::Unsupported("way to registers that are not mapped");

#[derive(Debug)]
pub(crate) struct Uio {
    device: Arc<UioDevice>,
    vectors: u32,
    address: Option<String>,
}

impl Uio {
    /// The device at `path`. `all` is [`ALL`], except in tests.
    pub(crate) fn open(path: &Path, all: &Path) -> Result<Self, DeviceError> {
        let device = UioDevice::open(path, all)?;
        // Nobody waits for it yet. The driver before this one may have left it unmasked.
        device.mask();
        Ok(Self { vectors: device.interrupts().into(), address: device.address(), device: Arc::new(device) })
    }
}

impl Backing for Uio {
    fn region(&self, number: u32) -> Result<RegisterRegion, DeviceError> {
        may_wait("map a region")?;
        Ok(match self.device.region(number)? {
            Some(region) => RegisterRegion { size: region.size, mapped: vec![(0, region.map()?)] },
            None => RegisterRegion { size: 0, mapped: Vec::new() },
        })
    }

    fn read(&self, _: u32, _: u64, _: usize) -> Result<u64, DeviceError> {
        Err(NOT_MAPPED)
    }

    fn write(&self, _: u32, _: u64, _: usize, _: u64) -> Result<(), DeviceError> {
        Err(NOT_MAPPED)
    }

    /// Addresses of memory would reach the device as they are, and nothing would keep it from all
    /// other memory.
    fn map_dma(&self, _: u64, _: &DeviceMemory, _: BorrowedFd<'_>) -> Result<(), DeviceError> {
        Err(NO_IOMMU)
    }

    fn unmap_dma(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        Err(NO_IOMMU)
    }

    fn vectors(&self) -> u32 {
        self.vectors
    }

    fn counter(&self, _: u32) -> Result<EventCounter, DeviceError> {
        Ok(EventCounter::Uio(Arc::clone(&self.device)))
    }

    fn set_interrupt(&self, _: u32, events: Option<&EventFd>) -> Result<(), DeviceError> {
        if events.is_some() {
            return Err(DeviceError::Unsupported("event counter that needs no unmasking"));
        }
        self.device.mask();
        Ok(())
    }

    fn reset(&self) -> Result<(), DeviceError> {
        may_wait("reset the device")?;
        blocking(|| self.device.reset()).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => DeviceError::Unsupported("reset"),
            _ => e.into(),
        })
    }

    fn close(&self) {
        self.device.mask();
    }

    /// A holder would keep it for DMA, of which there is none.
    fn files(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn reset_after(&self, _: u16) -> Result<(), DeviceError> {
        self.reset()
    }

    fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    fn ends_with(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

#[cfg(test)]
mod tests;
