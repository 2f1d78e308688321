//! Memory that the device reads and writes by itself.

use crate::DeviceError;
use crate::device::DeviceInner;
use crate::holder::held_device::HeldPart;
use crate::iova::PAGE;
use std::ops::Range;
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
    bytes: DmaBytes,
}

#[derive(Debug)]
enum DmaBytes {
    /// Memory of its own. There until the drop.
    Own(Option<KeptMemory>),
    /// A part of what the device's holder keeps.
    Held(Range<usize>),
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
        if let Some(held) = device.held() {
            let iova = device.iovas().take_last(len as u64)?;
            let range = held.range(iova, len);
            held.clear(range.clone());
            return Ok(Self { device, iova, bytes: DmaBytes::Held(range) });
        }
        let (memory, file) = Memory::create("underpass-dma", len)?;
        // Lack of memory is an error now, not a fault later.
        memory.fill(len)?;
        let iova = device.iovas().take(len as u64)?;
        let memory = DeviceMemory::new(memory);
        device.backing().map_dma(iova, &memory, file.as_fd()).inspect_err(|_| {
            device.iovas().give_back(iova, len as u64);
        })?;
        let kept = KeptMemory { memory, _file: file };
        Ok(Self { device, iova, bytes: DmaBytes::Own(Some(kept)) })
    }

    /// A part of what the device's holder keeps.
    pub(crate) fn kept(device: Arc<DeviceInner>, offset: usize, len: usize) -> Result<Self, DeviceError> {
        let held = device.held().ok_or(DeviceError::Unsupported("holder"))?;
        let pages = offset.is_multiple_of(PAGE as usize) && len.is_multiple_of(PAGE as usize);
        let iova = held.iova().checked_add(offset as u64).filter(|_| pages && len > 0);
        let iova = iova.ok_or(DeviceError::Unsupported("such a part of its memory"))?;
        device.iovas().take_at(iova, len as u64)?;
        let range = held.range(iova, len);
        Ok(Self { device, iova, bytes: DmaBytes::Held(range) })
    }

    /// The memory, and the part of it that this is.
    fn memory(&self) -> (&DeviceMemory, Range<usize>) {
        match &self.bytes {
            DmaBytes::Own(kept) => {
                let memory = &kept.as_ref().expect("only the drop takes it").memory;
                (memory, 0..memory.len())
            }
            DmaBytes::Held(range) => {
                let held = self.device.held().map(HeldPart::memory);
                (held.expect("such memory is a holder's"), range.clone())
            }
        }
    }

    /// Where `len` bytes at `offset` lie in the memory.
    fn place(&self, offset: usize, len: usize) -> Result<(&DeviceMemory, usize), DeviceError> {
        let (memory, range) = self.memory();
        let inside = offset.checked_add(len).is_some_and(|end| end <= range.len());
        let error =
            DeviceError::OutOfBounds { offset: offset as u64, len: len as u64, of: range.len() as u64 };
        if inside { Ok((memory, range.start + offset)) } else { Err(error) }
    }

    /// The device's address of the first byte.
    pub fn iova(&self) -> u64 {
        self.iova
    }

    /// Bytes, a multiple of 4096.
    pub fn len(&self) -> usize {
        self.memory().1.len()
    }

    /// Whether there are no bytes. This is never the case.
    pub fn is_empty(&self) -> bool {
        self.memory().1.is_empty()
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
        let (memory, at) = self.place(offset, bytes.len())?;
        self.within(memory.copy_in(at, bytes), offset, bytes.len())
    }

    /// Copies the bytes from `offset` on into `bytes`. They are what the device has written so far.
    ///
    /// # Errors
    /// [`OutOfBounds`](DeviceError::OutOfBounds).
    pub fn copy_out(&self, offset: usize, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let len = bytes.len();
        let (memory, at) = self.place(offset, len)?;
        self.within(memory.copy_out(at, bytes), offset, len)
    }

    /// Reads a word. What the device wrote before it is visible afterwards.
    ///
    /// # Errors
    /// [`OutOfBounds`](DeviceError::OutOfBounds), also if it is not aligned.
    pub fn load<W: RegisterWord>(&self, offset: usize) -> Result<W, DeviceError> {
        let (memory, at) = self.place(offset, W::BYTES)?;
        self.within(memory.load(at), offset, W::BYTES)
    }

    /// Writes a word. If the device sees it, it sees what was written before.
    ///
    /// # Errors
    /// [`OutOfBounds`](DeviceError::OutOfBounds), also if it is not aligned.
    pub fn store<W: RegisterWord>(&self, offset: usize, value: W) -> Result<(), DeviceError> {
        let (memory, at) = self.place(offset, W::BYTES)?;
        self.within(memory.store(at, value), offset, W::BYTES)
    }
}

impl Drop for DmaMemory {
    fn drop(&mut self) {
        let kept = match &mut self.bytes {
            DmaBytes::Own(kept) => kept.take(),
            DmaBytes::Held(range) => {
                self.device.iovas().give_back(self.iova, range.len() as u64);
                None
            }
        };
        let Some(kept) = kept else { return };
        let len = kept.memory.len() as u64;
        match self.device.backing().unmap_dma(self.iova, len) {
            Ok(()) => self.device.iovas().give_back(self.iova, len),
            // The device may still write there.
            Err(_) => self.device.keep(kept),
        }
    }
}
