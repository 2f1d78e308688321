//! What a device sees of its driver: memory, and interrupts to signal.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use underpass_os::{DeviceMemory, EventFd, Memory};

/// The driver's memory by the device's addresses, and the event counters of the vectors.
#[derive(Debug, Default)]
pub struct DeviceBus {
    memory: BTreeMap<u64, DeviceMemory>,
    events: Vec<Option<EventFd>>,
}

impl DeviceBus {
    pub(crate) fn new(vectors: u32) -> Self {
        Self { memory: BTreeMap::new(), events: (0..vectors).map(|_| None).collect() }
    }

    /// Maps `len` bytes of a file, from `offset` on, as the addresses from `at` on.
    pub(crate) fn map(&mut self, at: u64, len: u64, file: &OwnedFd, offset: u64) -> io::Result<()> {
        let size = Memory::length_of(file.as_fd())?;
        let memory = Memory::adopt(file.as_fd(), size as usize)?;
        let end = offset.checked_add(len).ok_or(io::ErrorKind::InvalidInput)?;
        let part = DeviceMemory::within(memory, offset as usize..end as usize);
        self.memory.insert(at, part.ok_or(io::ErrorKind::InvalidInput)?);
        Ok(())
    }

    pub(crate) fn unmap(&mut self, at: u64) -> bool {
        self.memory.remove(&at).is_some()
    }

    pub(crate) fn set_event(&mut self, vector: usize, event: Option<EventFd>) -> bool {
        self.events.get_mut(vector).map(|place| *place = event).is_some()
    }

    fn at(&self, address: u64) -> Option<(&DeviceMemory, usize)> {
        let (begin, memory) = self.memory.range(..=address).next_back()?;
        Some((memory, usize::try_from(address - begin).ok()?))
    }

    /// Reads the driver's memory. `false`: none is mapped there.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        self.at(address).and_then(|(memory, at)| memory.copy_out(at, bytes)).is_some()
    }

    /// Writes the driver's memory. `false`: none is mapped there.
    pub fn write(&self, address: u64, bytes: &[u8]) -> bool {
        self.at(address).and_then(|(memory, at)| memory.copy_in(at, bytes)).is_some()
    }

    /// Writes a word of the driver's memory, after all that was written before. `false`: none is
    /// mapped there.
    pub fn store(&self, address: u64, word: u32) -> bool {
        self.at(address).and_then(|(memory, at)| memory.store(at, word)).is_some()
    }

    /// Raises an interrupt, if the vector is enabled.
    pub fn raise(&self, vector: usize) {
        if let Some(Some(event)) = self.events.get(vector) {
            event.signal();
        }
    }
}
