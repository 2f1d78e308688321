//! The registers of a virtio device as its driver sees them: those of a device on a bus of memory
//! (virtio 1.1, section 4.2.2).

/// `virt`.
pub(super) const MAGIC: u32 = 0x7472_6976;
pub(super) const VERSION: u32 = 2;

/// Bytes before the device's own configuration, and all bytes.
pub(super) const CONFIGURATION: u64 = 0x100;
pub(super) const SIZE: u64 = CONFIGURATION + 256;

/// What the driver has told about the device and its queue.
#[derive(Debug, Default)]
pub(super) struct VirtioState {
    pub(super) device_select: u32,
    pub(super) driver_select: u32,
    pub(super) driver_features: u64,
    pub(super) queue_select: u32,
    pub(super) status: u32,
    pub(super) queue: VirtioQueue,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VirtioQueue {
    pub(super) entries: u32,
    pub(super) ready: bool,
    pub(super) descriptors: u64,
    pub(super) driver: u64,
    pub(super) device: u64,
}

/// A register that has a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VirtioRegister {
    Magic,
    Version,
    Device,
    DeviceFeatures,
    DeviceSelect,
    DriverFeatures,
    DriverSelect,
    QueueSelect,
    QueueMost,
    QueueEntries,
    QueueReady,
    QueueNotify,
    Status,
    /// The half of one of the three addresses of a queue: which address, and whether its upper
    /// half.
    Address(usize, bool),
    /// Nothing is there, or nothing that vhost-user has.
    Other,
}

impl VirtioRegister {
    pub(super) fn at(offset: u64) -> Self {
        match offset {
            0x00 => Self::Magic,
            0x04 => Self::Version,
            0x08 => Self::Device,
            0x10 => Self::DeviceFeatures,
            0x14 => Self::DeviceSelect,
            0x20 => Self::DriverFeatures,
            0x24 => Self::DriverSelect,
            0x30 => Self::QueueSelect,
            0x34 => Self::QueueMost,
            0x38 => Self::QueueEntries,
            0x44 => Self::QueueReady,
            0x50 => Self::QueueNotify,
            0x70 => Self::Status,
            0x80 | 0x84 => Self::Address(0, offset & 4 != 0),
            0x90 | 0x94 => Self::Address(1, offset & 4 != 0),
            0xa0 | 0xa4 => Self::Address(2, offset & 4 != 0),
            _ => Self::Other,
        }
    }
}

impl VirtioQueue {
    pub(super) fn set_address(&mut self, which: usize, upper: bool, value: u32) {
        let address = [&mut self.descriptors, &mut self.driver, &mut self.device];
        let Some(address) = address.into_iter().nth(which) else { return };
        *address = half(*address, upper, value);
    }
}

/// `number` with one half replaced.
pub(super) fn half(number: u64, upper: bool, value: u32) -> u64 {
    match upper {
        true => number & 0xffff_ffff | u64::from(value) << 32,
        false => number & !0xffff_ffff | u64::from(value),
    }
}
