//! Memory that the device reads and writes by itself.

use crate::DeviceError;
use crate::device::DeviceInner;
use crate::iova::PAGE;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use underpass_os::{DeviceMemory, Memory, RegisterWord};

/// Memory for a device's DMA, zero at first.
///
/// The device may change it at any moment, so there is never a reference into it: bytes are copied
/// in and out, and words are read and written whole. The memory stays until the device can't access
/// it any more, also if the device is asked to forget it and refuses.
///
/// # Examples
/// ```
/// use underpass::device::{Device, DeviceSource};
///
/// # let (socket, _device) = underpass_test_device::start_edu()?;
/// let device = Device::open(DeviceSource::vfio_user_socket(socket))?;
/// let memory = device.dma(4096)?;
/// memory.copy_in(100, b"hello")?;
/// let mut bytes = [0; 5];
/// memory.copy_out(100, &mut bytes)?;
/// assert_eq!(&bytes, b"hello");
/// assert!(memory.copy_in(4095, b"hello").is_err(), "checked against the bounds");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DmaMemory {
    device: Arc<DeviceInner>,
    iova: u64,
    /// There until the drop.
    kept: Option<KeptMemory>,
}

/// The memory itself. The file keeps it alive for a device that has only its number.
#[derive(Debug)]
pub(crate) struct KeptMemory {
    memory: DeviceMemory,
    _file: OwnedFd,
}

impl DmaMemory {
    pub(crate) fn new(device: Arc<DeviceInner>, len: usize) -> Result<Self, DeviceError> {
        let len = len
            .max(1)
            .checked_next_multiple_of(PAGE as usize)
            .ok_or(DeviceError::Unsupported("so much memory"))?;
        let (memory, file) = Memory::create("underpass-dma", len)?;
        // Lack of memory is an error now, not a fault later.
        memory.fill(len)?;
        let iova = device.iovas().take(len as u64)?;
        let memory = DeviceMemory::new(memory);
        device.backing().map_dma(iova, &memory, file.as_fd()).inspect_err(|_| {
            device.iovas().give_back(iova, len as u64);
        })?;
        let kept = KeptMemory { memory, _file: file };
        Ok(Self { device, iova, kept: Some(kept) })
    }

    fn memory(&self) -> &DeviceMemory {
        &self.kept.as_ref().expect("only the drop takes it").memory
    }

    /// The device's address of the first byte.
    pub fn iova(&self) -> u64 {
        self.iova
    }

    /// Bytes, a multiple of 4096.
    pub fn len(&self) -> usize {
        self.memory().len()
    }

    /// Whether there are no bytes. This is never the case.
    pub fn is_empty(&self) -> bool {
        self.memory().is_empty()
    }

    fn within<T>(&self, found: Option<T>, offset: usize, len: usize) -> Result<T, DeviceError> {
        found.ok_or(DeviceError::OutOfBounds {
            offset: offset as u64,
            len: len as u64,
            of: self.len() as u64,
        })
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Errors
    /// [`OutOfBounds`](DeviceError::OutOfBounds).
    pub fn copy_in(&self, offset: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        self.within(self.memory().copy_in(offset, bytes), offset, bytes.len())
    }

    /// Copies the bytes from `offset` on into `bytes`. They are what the device has written so far.
    ///
    /// # Errors
    /// [`OutOfBounds`](DeviceError::OutOfBounds).
    pub fn copy_out(&self, offset: usize, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let len = bytes.len();
        self.within(self.memory().copy_out(offset, bytes), offset, len)
    }

    /// Reads a word. What the device wrote before it is visible afterwards.
    ///
    /// # Errors
    /// [`OutOfBounds`](DeviceError::OutOfBounds), also if it is not aligned.
    pub fn load<W: RegisterWord>(&self, offset: usize) -> Result<W, DeviceError> {
        self.within(self.memory().load(offset), offset, W::BYTES)
    }

    /// Writes a word. If the device sees it, it sees what was written before.
    ///
    /// # Errors
    /// [`OutOfBounds`](DeviceError::OutOfBounds), also if it is not aligned.
    pub fn store<W: RegisterWord>(&self, offset: usize, value: W) -> Result<(), DeviceError> {
        self.within(self.memory().store(offset, value), offset, W::BYTES)
    }
}

impl Drop for DmaMemory {
    fn drop(&mut self) {
        let Some(kept) = self.kept.take() else { return };
        let len = kept.memory.len() as u64;
        match self.device.backing().unmap_dma(self.iova, len) {
            Ok(()) => self.device.iovas().give_back(self.iova, len),
            // The device may still write there.
            Err(_) => self.device.keep(kept),
        }
    }
}
