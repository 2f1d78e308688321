//! A device for learners, after QEMU's `edu`: it computes factorials, copies by DMA, and raises
//! interrupts.

use crate::bus::DeviceBus;
use crate::server::{DeviceModel, ModelRegion};
use std::io;
use underpass_os::Memory;

/// | register | meaning |
/// |---|---|
/// | 0x00 | the device's kind and version |
/// | 0x04 | returns the inverse of what was written |
/// | 0x08 | a number to compute the factorial of; then the factorial |
/// | 0x20 | 1: it computes; 0x80: it is to raise vector 0 when it is ready |
/// | 0x24 | the interrupts that were not acknowledged |
/// | 0x60 | raises vector 0 |
/// | 0x64 | acknowledges interrupts |
/// | 0x80, 0x88, 0x90 | of a copy by DMA: from, to, bytes |
/// | 0x98 | begins the copy: 1, and 2 for one to the driver's memory, and 4 for vector 1 at its end |
/// | 0xa0 | how many of vector 0 to raise in a row; the device does nothing else meanwhile |
/// | 0xa4 | 1: it raises vector 0 without end |
/// | 0xa8 | its process ends |
///
/// Region 2 is memory, which can be mapped.
#[derive(Debug)]
pub struct Edu {
    regions: Vec<ModelRegion>,
    inverse: u32,
    factorial: u32,
    status: u32,
    raised: u32,
    from: u64,
    to: u64,
    len: u64,
    buffer: Vec<u8>,
    storms: bool,
}

/// The device's address of its own buffer.
const BUFFER: u64 = 0x4_0000;
const BUFFER_LEN: usize = 4096;
const COMPUTING: u32 = 1;
const RAISES: u32 = 0x80;
const OF_FACTORIAL: u32 = 1;
const OF_DMA: u32 = 0x100;

impl Edu {
    /// A device.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new() -> io::Result<Self> {
        let (_, file) = Memory::create("edu", BUFFER_LEN)?;
        let mut regions: Vec<_> = (0..9).map(|_| ModelRegion { size: 0, file: None }).collect();
        regions[0].size = 0x1000;
        regions[2] = ModelRegion { size: BUFFER_LEN as u64, file: Some(file) };
        Ok(Self {
            regions,
            inverse: 0,
            factorial: 0,
            status: 0,
            raised: 0,
            from: 0,
            to: 0,
            len: 0,
            buffer: vec![0; BUFFER_LEN],
            storms: false,
        })
    }

    fn raise(&mut self, bus: &DeviceBus, vector: usize, bits: u32) {
        self.raised |= bits;
        bus.raise(vector);
    }

    fn compute(&mut self, bus: &DeviceBus, number: u32) {
        self.factorial = (1..=number).fold(1, u32::wrapping_mul);
        self.status &= !COMPUTING;
        if self.status & RAISES != 0 {
            self.raise(bus, 0, OF_FACTORIAL);
        }
    }

    fn copy(&mut self, bus: &DeviceBus, command: u32) {
        let to_driver = command & 2 != 0;
        let own = if to_driver { self.from } else { self.to };
        let begin = own.checked_sub(BUFFER).and_then(|at| usize::try_from(at).ok());
        let range = begin.and_then(|begin| Some(begin..begin.checked_add(self.len as usize)?));
        if let Some(bytes) = range.and_then(|range| self.buffer.get_mut(range)) {
            match to_driver {
                true => bus.write(self.to, bytes),
                false => bus.read(self.from, bytes),
            };
        }
        if command & 4 != 0 {
            self.raise(bus, 1, OF_DMA);
        }
    }
}

impl DeviceModel for Edu {
    fn regions(&self) -> &[ModelRegion] {
        &self.regions
    }

    fn vectors(&self) -> u32 {
        2
    }

    fn read(&mut self, _: &DeviceBus, region: u32, offset: u64, bytes: &mut [u8]) -> Result<(), i32> {
        if region != 0 {
            return Err(22);
        }
        let value = match offset {
            0x00 => 0x0100_00ed,
            0x04 => !self.inverse,
            0x08 => self.factorial,
            0x20 => self.status,
            0x24 => self.raised,
            _ => 0,
        };
        let value = u64::from(value).to_le_bytes();
        bytes.iter_mut().zip(value).for_each(|(byte, of)| *byte = of);
        Ok(())
    }

    fn write(&mut self, bus: &DeviceBus, region: u32, offset: u64, bytes: &[u8]) -> Result<(), i32> {
        if region != 0 {
            return Err(22);
        }
        let mut value = [0; 8];
        value.iter_mut().zip(bytes).for_each(|(of, byte)| *of = *byte);
        let value = u64::from_le_bytes(value);
        match offset {
            0x04 => self.inverse = value as u32,
            0x08 => self.compute(bus, value as u32),
            0x20 => self.status = value as u32 & RAISES,
            0x60 => self.raise(bus, 0, value as u32),
            0x64 => self.raised &= !(value as u32),
            0x80 => self.from = value,
            0x88 => self.to = value,
            0x90 => self.len = value,
            0x98 => self.copy(bus, value as u32),
            0xa0 => (0..value).for_each(|_| bus.raise(0)),
            0xa4 => self.storms = value & 1 != 0,
            0xa8 => std::process::exit(0),
            _ => {}
        }
        Ok(())
    }

    fn reset(&mut self, _: &DeviceBus) {
        let regions = std::mem::take(&mut self.regions);
        if let Ok(new) = Self::new() {
            *self = Self { regions, ..new };
        }
    }

    fn act(&mut self, bus: &DeviceBus) -> bool {
        if self.storms {
            bus.raise(0);
        }
        self.storms
    }
}
