//! The registers of a virtio device on a bus of memory (virtio 1.1, section 4.2.2), and the
//! configuration of a disk (section 5.2.4).

use crate::VirtioError;
use underpass::device::Registers;

const MAGIC: u64 = 0x00;
const VERSION: u64 = 0x04;
const DEVICE_FEATURES: u64 = 0x10;
const DEVICE_SELECT: u64 = 0x14;
const DRIVER_FEATURES: u64 = 0x20;
const DRIVER_SELECT: u64 = 0x24;
const QUEUE_SELECT: u64 = 0x30;
const QUEUE_MOST: u64 = 0x34;
const QUEUE_ENTRIES: u64 = 0x38;
const QUEUE_READY: u64 = 0x44;
const QUEUE_NOTIFY: u64 = 0x50;
const STATUS: u64 = 0x70;
const ADDRESSES: [u64; 3] = [0x80, 0x90, 0xa0];
/// Of a disk: its sectors.
const CAPACITY: u64 = 0x100;

const ACKNOWLEDGED: u32 = 1;
const DRIVER: u32 = 2;
const DRIVER_OK: u32 = 4;
const FEATURES_OK: u32 = 8;

/// The device follows version 1 of the specification.
const MODERN: u64 = 1 << 32;
/// It has a request that makes all writes last.
const FLUSHES: u64 = 1 << 9;

#[derive(Clone, Debug)]
pub(crate) struct VirtioRegisters(pub(crate) Registers);

/// What was agreed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreed {
    pub(crate) flushes: bool,
    pub(crate) sectors: u64,
}

impl VirtioRegisters {
    fn write(&self, offset: u64, value: u32) -> Result<(), VirtioError> {
        Ok(self.0.write(offset, value)?)
    }

    fn read(&self, offset: u64) -> Result<u32, VirtioError> {
        Ok(self.0.read(offset)?)
    }

    /// Stops the device: it accesses no memory afterwards.
    pub(crate) fn reset(&self) -> Result<(), VirtioError> {
        self.write(STATUS, 0)?;
        match self.read(STATUS)? {
            0 => Ok(()),
            _ => Err(VirtioError::Unusable("it does not stop")),
        }
    }

    /// Agrees with the device on its features.
    pub(crate) fn agree(&self) -> Result<Agreed, VirtioError> {
        if self.read(MAGIC)? != u32::from_le_bytes(*b"virt") || self.read(VERSION)? != 2 {
            return Err(VirtioError::Unusable("it has not the registers of one"));
        }
        self.write(STATUS, ACKNOWLEDGED | DRIVER)?;
        let mut features = 0;
        for half in [0u32, 1] {
            self.write(DEVICE_SELECT, half)?;
            features |= u64::from(self.read(DEVICE_FEATURES)?) << (32 * half);
        }
        if features & MODERN == 0 {
            return Err(VirtioError::Unusable("it does not follow version 1 of the specification"));
        }
        let taken = features & (MODERN | FLUSHES);
        for half in [0u32, 1] {
            self.write(DRIVER_SELECT, half)?;
            self.write(DRIVER_FEATURES, (taken >> (32 * half)) as u32)?;
        }
        self.write(STATUS, ACKNOWLEDGED | DRIVER | FEATURES_OK)?;
        if self.read(STATUS)? & FEATURES_OK == 0 {
            return Err(VirtioError::Unusable("it refuses its own features"));
        }
        let sectors = self.0.read::<u64>(CAPACITY)?;
        if sectors == 0 || sectors > u64::MAX >> 9 {
            return Err(VirtioError::Unusable("it says how many sectors it has, and that can't be"));
        }
        Ok(Agreed { flushes: taken & FLUSHES != 0, sectors })
    }

    /// Starts the queue. Its three parts are at these addresses.
    pub(crate) fn start(&self, entries: u16, parts: [u64; 3]) -> Result<(), VirtioError> {
        self.write(QUEUE_SELECT, 0)?;
        if self.read(QUEUE_MOST)? < u32::from(entries) {
            return Err(VirtioError::Unusable("its queue is too short"));
        }
        self.write(QUEUE_ENTRIES, entries.into())?;
        for (register, part) in ADDRESSES.into_iter().zip(parts) {
            self.write(register, part as u32)?;
            self.write(register + 4, (part >> 32) as u32)?;
        }
        self.write(QUEUE_READY, 1)?;
        self.write(STATUS, ACKNOWLEDGED | DRIVER | FEATURES_OK | DRIVER_OK)
    }

    /// Tells the device that the queue has something new.
    pub(crate) fn notify(&self) -> Result<(), VirtioError> {
        self.write(QUEUE_NOTIFY, 0)
    }
}
