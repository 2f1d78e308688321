//! How threads wait for a vector.

use std::sync::atomic::{AtomicU8, Ordering};

/// How a thread waits for a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum WaitingMode {
    /// It polls for about as long as a wake-up costs, and then sleeps until an interrupt comes.
    #[default]
    Adaptive,
    /// It polls until the device is ready, and gives way to other threads meanwhile. For devices
    /// that are always busy: the vector stays masked.
    Polling,
    /// It sleeps until an interrupt comes. For devices that take long.
    Interrupts,
}

/// The mode of a vector, which may change while threads wait.
#[derive(Debug, Default)]
pub(crate) struct SharedMode(AtomicU8);

impl SharedMode {
    pub(crate) fn set(&self, mode: WaitingMode) {
        // Relaxed: it counts for later waits.
        self.0.store(mode as u8, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> WaitingMode {
        match self.0.load(Ordering::Relaxed) {
            mode if mode == WaitingMode::Polling as u8 => WaitingMode::Polling,
            mode if mode == WaitingMode::Interrupts as u8 => WaitingMode::Interrupts,
            _ => WaitingMode::Adaptive,
        }
    }
}
