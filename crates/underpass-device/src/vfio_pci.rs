//! PCI devices by the kernel's `vfio-pci`.

use crate::DeviceError;
use crate::backing::{Backing, RegisterRegion, may_wait};
use crate::lock::lock;
use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use underpass_os::{DeviceMemory, EventFd, VfioDevice, VfioInterrupts, VfioRegion};
use underpass_threads::blocking;

/// | field | its writer |
/// |---|---|
/// | `regions` | whoever first asks for a region, under its lock |
/// | `enabled` | whoever first sets a vector, under its lock |
#[derive(Debug)]
pub(crate) struct VfioPci {
    device: VfioDevice,
    /// Unknown, if another process has opened it.
    address: Option<String>,
    resets: bool,
    count: u32,
    regions: Mutex<HashMap<u32, Arc<VfioRegion>>>,
    kind: VfioInterrupts,
    vectors: u32,
    /// Whether the vectors are enabled. Most kernels can't enable more of them later.
    enabled: Mutex<bool>,
}

impl VfioPci {
    /// The device at `address`.
    pub(crate) fn open(address: &str) -> Result<Self, DeviceError> {
        Self::of(VfioDevice::open(address)?, Some(address.to_owned()))
    }

    /// A device that another process has opened.
    pub(crate) fn adopt(device: OwnedFd, container: OwnedFd, group: OwnedFd) -> Result<Self, DeviceError> {
        Self::of(VfioDevice::adopt(device, container, group)?, None)
    }

    fn of(device: VfioDevice, address: Option<String>) -> Result<Self, DeviceError> {
        let info = device.info()?;
        let (mut kind, mut vectors) = (VfioInterrupts::MsiX, device.vectors(VfioInterrupts::MsiX)?);
        if vectors == 0 {
            (kind, vectors) = (VfioInterrupts::Msi, device.vectors(VfioInterrupts::Msi)?);
        }
        Ok(Self {
            device,
            address,
            resets: info.resets,
            count: info.regions,
            regions: Mutex::default(),
            kind,
            vectors,
            enabled: Mutex::new(false),
        })
    }

    fn known(&self, number: u32) -> Result<Arc<VfioRegion>, DeviceError> {
        if let Some(region) = lock(&self.regions).get(&number) {
            return Ok(Arc::clone(region));
        }
        let region = Arc::new(self.device.region(number)?);
        lock(&self.regions).insert(number, Arc::clone(&region));
        Ok(region)
    }
}

impl Backing for VfioPci {
    fn region(&self, number: u32) -> Result<RegisterRegion, DeviceError> {
        may_wait("map a region")?;
        if number >= self.count {
            return Ok(RegisterRegion { size: 0, mapped: Vec::new() });
        }
        let region = self.known(number)?;
        // What can't be mapped is read and written by system calls.
        let map = |&(begin, len): &(u64, u64)| Some((begin, self.device.map(&region, (begin, len)).ok()?));
        Ok(RegisterRegion { size: region.size, mapped: region.parts.iter().filter_map(map).collect() })
    }

    fn read(&self, region: u32, offset: u64, width: usize) -> Result<u64, DeviceError> {
        let mut value = [0; 8];
        self.device.read(&*self.known(region)?, offset, &mut value[..width])?;
        Ok(u64::from_le_bytes(value))
    }

    fn write(&self, region: u32, offset: u64, width: usize, value: u64) -> Result<(), DeviceError> {
        Ok(self.device.write(&*self.known(region)?, offset, &value.to_le_bytes()[..width])?)
    }

    fn map_dma(&self, iova: u64, memory: &DeviceMemory, _: BorrowedFd<'_>) -> Result<(), DeviceError> {
        may_wait("map memory")?;
        // The kernel pins every page.
        Ok(blocking(|| self.device.map_dma(iova, memory))?)
    }

    fn unmap_dma(&self, iova: u64, len: u64) -> Result<(), DeviceError> {
        may_wait("unmap memory")?;
        Ok(blocking(|| self.device.unmap_dma(iova, len))?)
    }

    fn vectors(&self) -> u32 {
        self.vectors
    }

    fn set_interrupt(&self, vector: u32, events: Option<&EventFd>) -> Result<(), DeviceError> {
        may_wait("enable an interrupt")?;
        let mut enabled = lock(&self.enabled);
        if !*enabled {
            self.device.enable_vectors(self.kind, self.vectors)?;
            *enabled = true;
        }
        Ok(self.device.set_vector(self.kind, vector, events)?)
    }

    fn reset(&self) -> Result<(), DeviceError> {
        may_wait("reset the device")?;
        if !self.resets {
            return Err(DeviceError::Unsupported("reset"));
        }
        Ok(blocking(|| self.device.reset())?)
    }

    fn close(&self) {
        // It fails only if none are enabled. The rest ends with the descriptors.
        let _ = self.device.disable_vectors(self.kind);
    }

    fn files(&self) -> Vec<BorrowedFd<'_>> {
        self.device.files().into()
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
