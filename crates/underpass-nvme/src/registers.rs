//! The registers of an NVMe controller (NVM Express Base Specification 1.4, section 3.1).

use crate::NvmeError;
use std::time::Instant;
use underpass::device::Registers;

const CAPABILITIES: u64 = 0x00;
const CONFIGURATION: u64 = 0x14;
const STATUS: u64 = 0x1c;
const ADMIN_SIZES: u64 = 0x24;
const ADMIN_SUBMISSION: u64 = 0x28;
const ADMIN_COMPLETION: u64 = 0x30;
const DOORBELLS: u64 = 0x1000;

const READY: u32 = 1;
const FATAL: u32 = 2;
/// Enabled; entries of submission queues have 2⁶ bytes, and those of completion queues 2⁴.
const ENABLED: u32 = 1 | 6 << 16 | 4 << 20;

/// What the controller is able to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ControllerCapabilities {
    /// The most entries of a queue.
    pub(crate) entries: u16,
    /// Bytes between two doorbells.
    stride: u64,
}

/// The registers of a controller.
#[derive(Clone, Debug)]
pub(crate) struct ControllerRegisters {
    registers: Registers,
    pub(crate) capabilities: ControllerCapabilities,
}

impl ControllerRegisters {
    pub(crate) fn new(registers: Registers) -> Result<Self, NvmeError> {
        let all = registers.read::<u64>(CAPABILITIES)?;
        let capabilities = ControllerCapabilities {
            entries: (all as u16).saturating_add(1),
            stride: 4 << (all >> 32 & 0xf),
        };
        // The specification asks for two entries.
        if capabilities.entries < 2 || all == u64::MAX {
            return Err(NvmeError::Controller("it says what it is able to do, and that can't be"));
        }
        if all >> 48 & 0xf != 0 {
            return Err(NvmeError::Controller("it takes no pages of 4 KiB"));
        }
        Ok(Self { registers, capabilities })
    }

    /// Stops the controller: it accesses no memory afterwards.
    pub(crate) fn disable(&self, deadline: Instant) -> Result<(), NvmeError> {
        self.registers.write(CONFIGURATION, 0u32)?;
        self.registers.read_until(STATUS, deadline, |status: u32| status & READY == 0)?;
        Ok(())
    }

    /// Starts the controller with these admin queues of `entries` each.
    pub(crate) fn enable(
        &self,
        entries: u16,
        submission: u64,
        completion: u64,
        deadline: Instant,
    ) -> Result<(), NvmeError> {
        let last = u32::from(entries - 1);
        self.registers.write(ADMIN_SIZES, last | last << 16)?;
        self.registers.write(ADMIN_SUBMISSION, submission)?;
        self.registers.write(ADMIN_COMPLETION, completion)?;
        self.registers.write(CONFIGURATION, ENABLED)?;
        let status =
            self.registers.read_until(STATUS, deadline, |status: u32| status & (READY | FATAL) != 0)?;
        match status & FATAL {
            0 => Ok(()),
            _ => Err(NvmeError::Controller("it did not start")),
        }
    }

    /// Whether the controller runs.
    pub(crate) fn is_ready(&self) -> Result<bool, NvmeError> {
        let status = self.registers.read::<u32>(STATUS)?;
        Ok(status & (READY | FATAL) == READY)
    }

    /// Whether the controller says that it has failed.
    pub(crate) fn has_failed(&self) -> Result<bool, NvmeError> {
        let status = self.registers.read::<u32>(STATUS)?;
        Ok(status & FATAL != 0 || status == u32::MAX)
    }

    /// Tells the controller how far a submission queue was filled.
    pub(crate) fn ring_submission(&self, queue: u16, tail: u16) -> Result<(), NvmeError> {
        self.ring(u64::from(queue) * 2, tail)
    }

    /// Tells the controller how far a completion queue was read.
    pub(crate) fn ring_completion(&self, queue: u16, head: u16) -> Result<(), NvmeError> {
        self.ring(u64::from(queue) * 2 + 1, head)
    }

    fn ring(&self, doorbell: u64, value: u16) -> Result<(), NvmeError> {
        Ok(self.registers.write(DOORBELLS + doorbell * self.capabilities.stride, u32::from(value))?)
    }
}
