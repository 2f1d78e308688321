//! A device that raises an interrupt when it is told to, and says at what time.

use crate::BenchError;
use crate::processes::role::ChildRole;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use underpass_os::clock::now_ns;
use underpass_os::{DeviceMemory, Memory};
use underpass_test_device::{DeviceBus, DeviceModel, ModelRegion, serve_at};

/// Its registers, which are memory.
///
/// | register | meaning |
/// |---|---|
/// | `ORDER` | the number of the order; the device acts on each new one |
/// | `DELAY` | how many ns it waits before that |
/// | `VECTOR` | which vector it raises; another number: none |
/// | `RAISED` | when it has raised it, in ns of the monotonic clock |
/// | `DONE` | the number of the order that it has done |
pub(super) const ORDER: u64 = 0;
pub(super) const DELAY: u64 = 256;
pub(super) const VECTOR: u64 = 512;
pub(super) const RAISED: u64 = 768;
pub(super) const DONE: u64 = 1024;
/// No vector.
pub(super) const SILENT: u64 = u64::MAX;
/// How many vectors it has.
const VECTORS: u32 = 4;
const BYTES: usize = 4096;
/// How long it looks for an order before it looks for a message.
const SPAN: u64 = 100_000;

struct Ticker {
    regions: Vec<ModelRegion>,
    words: DeviceMemory,
}

pub(super) fn socket(scratch: &Path) -> PathBuf {
    scratch.join("ticker.device")
}

/// The server's side of the scenario: the device.
pub(super) fn serve(role: &ChildRole) -> Result<(), BenchError> {
    Ok(serve_at(&socket(&role.scratch), &mut Ticker::new()?)?)
}

impl Ticker {
    fn new() -> Result<Self, BenchError> {
        let (_, file) = Memory::create("ticker", BYTES)?;
        let words = DeviceMemory::new(Memory::adopt(file.as_fd(), BYTES)?);
        let mut regions: Vec<_> = (0..9).map(|_| ModelRegion { size: 0, file: None }).collect();
        regions[0] = ModelRegion { size: BYTES as u64, file: Some(file) };
        Ok(Self { regions, words })
    }

    fn word(&self, register: u64) -> u64 {
        self.words.load(register as usize).unwrap_or(0)
    }

    fn set(&self, register: u64, value: u64) {
        // Each register lies in bounds.
        let _ = self.words.store(register as usize, value);
    }
}

impl DeviceModel for Ticker {
    fn regions(&self) -> &[ModelRegion] {
        &self.regions
    }

    fn vectors(&self) -> u32 {
        VECTORS
    }

    fn read(&mut self, _: &DeviceBus, _: u32, _: u64, _: &mut [u8]) -> Result<(), i32> {
        Ok(())
    }

    fn write(&mut self, _: &DeviceBus, _: u32, _: u64, _: &[u8]) -> Result<(), i32> {
        Ok(())
    }

    fn reset(&mut self, _: &DeviceBus) {
        self.set(ORDER, 0);
        self.set(DONE, 0);
    }

    fn act(&mut self, bus: &DeviceBus) -> bool {
        let until = now_ns() + SPAN;
        while now_ns() < until {
            let order = self.word(ORDER);
            if order == self.word(DONE) {
                std::hint::spin_loop();
                continue;
            }
            let delay = self.word(DELAY);
            if delay > 0 {
                let at = now_ns() + delay;
                while now_ns() < at {
                    std::hint::spin_loop();
                }
            }
            let vector = self.word(VECTOR);
            if vector != SILENT {
                self.set(RAISED, now_ns());
                bus.raise(vector as usize);
            }
            self.set(DONE, order);
        }
        true
    }
}
