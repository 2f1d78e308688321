//! The registers of a device.

use crate::DeviceError;
use crate::backing::RegisterRegion;
use crate::device::DeviceInner;
use std::sync::Arc;
use std::time::{Duration, Instant};
use underpass_os::RegisterWord;

/// One region of a device's registers: Raven's `vm_map_device` (section 4.4). When the last clone
/// is dropped, the region is unmapped.
///
/// Each access is one access of its width, and is checked against the bounds. A register that is
/// mapped is accessed by a load or a store. Other registers are reached by messages to the device:
/// reading waits for the device's answer, and writing does not wait.
///
/// # Examples
/// ```
/// use underpass::device::{Device, DeviceSource};
///
/// # let (socket, _device) = underpass_test_device::start_edu()?;
/// let device = Device::open(DeviceSource::vfio_user_socket(socket))?;
/// let registers = device.map_bar(0)?;
/// // This device inverts what is written to its register 4.
/// registers.write(4, 0x1234_5678u32)?;
/// assert_eq!(registers.read::<u32>(4)?, !0x1234_5678);
/// assert!(registers.read::<u32>(registers.size()).is_err(), "checked against the bounds");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Registers {
    device: Arc<DeviceInner>,
    number: u32,
    region: Arc<RegisterRegion>,
}

impl Registers {
    pub(crate) fn new(device: Arc<DeviceInner>, number: u32) -> Result<Self, DeviceError> {
        let region = device.backing().region(number)?;
        if region.size == 0 {
            return Err(DeviceError::Unsupported("such a region of registers"));
        }
        Ok(Self { device, number, region: Arc::new(region) })
    }

    /// Bytes of the region.
    pub fn size(&self) -> u64 {
        self.region.size
    }

    /// Whether the bytes from `offset` on are mapped. A handler can read only those.
    pub fn is_mapped(&self, offset: u64, len: u64) -> bool {
        self.mapped(offset, len).is_some()
    }

    fn mapped(&self, offset: u64, len: u64) -> Option<(&underpass_os::DeviceMemory, usize)> {
        self.region.mapped.iter().find_map(|(begin, memory)| {
            let at = usize::try_from(offset.checked_sub(*begin)?).ok()?;
            (at as u64 + len <= memory.len() as u64).then_some((memory, at))
        })
    }

    /// Checks that the access is aligned, and lies in bounds.
    fn check(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        let end = offset.checked_add(len).filter(|&end| end <= self.region.size);
        match end {
            Some(_) if offset.is_multiple_of(len) => Ok(()),
            _ => Err(DeviceError::OutOfBounds { offset, len, of: self.region.size }),
        }
    }

    /// Reads the register at `offset`: a `u8`, `u16`, `u32` or `u64`.
    ///
    /// # Errors
    /// [`OutOfBounds`](DeviceError::OutOfBounds). For registers that are not mapped:
    /// [`InHandler`](DeviceError::InHandler) in a handler, [`Late`](DeviceError::Late),
    /// [`Gone`](DeviceError::Gone), [`Malformed`](DeviceError::Malformed), and what the device
    /// refuses. For mapped ones: `Gone`, if the system refuses their page.
    pub fn read<W: RegisterWord>(&self, offset: u64) -> Result<W, DeviceError> {
        self.check(offset, W::BYTES as u64)?;
        if let Some((memory, at)) = self.mapped(offset, W::BYTES as u64) {
            let value = memory.read(at);
            return match memory.is_damaged() {
                true => Err(DeviceError::Gone),
                false => value.ok_or(DeviceError::Gone),
            };
        }
        self.device.backing().read(self.number, offset, W::BYTES).map(W::narrow)
    }

    /// Writes the register at `offset`. What was written to DMA memory before is visible to the
    /// device before.
    ///
    /// # Errors
    /// As [`read`](Self::read). In a handler, writing a register that is not mapped fails with
    /// `InHandler` only if the device has not read many earlier writes.
    pub fn write<W: RegisterWord>(&self, offset: u64, value: W) -> Result<(), DeviceError> {
        self.check(offset, W::BYTES as u64)?;
        if let Some((memory, at)) = self.mapped(offset, W::BYTES as u64) {
            return match memory.write(at, value) {
                Some(()) if !memory.is_damaged() => Ok(()),
                _ => Err(DeviceError::Gone),
            };
        }
        self.device.backing().write(self.number, offset, W::BYTES, value.widen())
    }

    /// Reads the register at `offset` until `accept` takes its value, but not beyond `deadline`. It
    /// reads again and again for a short time, and then waits between two reads.
    ///
    /// # Errors
    /// [`Late`](DeviceError::Late), if the register does not come to such a value. Those of
    /// [`read`](Self::read). [`InHandler`](DeviceError::InHandler), in a handler.
    pub fn read_until<W: RegisterWord>(
        &self,
        offset: u64,
        deadline: Instant,
        mut accept: impl FnMut(W) -> bool,
    ) -> Result<W, DeviceError> {
        const FIRST: Duration = Duration::from_micros(10);
        const LONGEST: Duration = Duration::from_millis(1);
        if underpass_threads::in_injected_task() {
            return Err(DeviceError::InHandler("wait for a register"));
        }
        let mut pause = FIRST;
        for tries in 0u32.. {
            let value = self.read(offset)?;
            if accept(value) {
                return Ok(value);
            }
            let now = Instant::now();
            if now >= deadline {
                break;
            }
            if tries < 16 {
                underpass_threads::yield_now();
            } else {
                underpass_threads::sleep(pause.min(deadline - now));
                pause = (pause * 2).min(LONGEST);
            }
        }
        Err(DeviceError::Late("change a register"))
    }
}
