//! The writes that are under way, and what a successor needs of the queues, in memory that the
//! device's holder keeps.
//!
//! *Read first:* the proof in `README.md`.
#![doc = include_str!("README.md")]

use crate::NvmeError;
use crate::queue::SLOTS;
use crate::queue_state::QueueState;
use underpass::device::DmaMemory;

/// Its bytes.
pub(crate) const LOG: usize = 4096;

const MAGIC: u64 = u64::from_le_bytes(*b"UPNVME01");
/// Offsets: which layout this is; bytes of a slot; whether the queues were handed over.
const LAYOUT: usize = 0;
const SLOT_BYTES: usize = 8;
const HANDED_OVER: usize = 16;
/// The states of the two queues.
const QUEUES: usize = 64;
const QUEUE: usize = 128;
/// The entries of the slots, 32 bytes each: step, sequence number, first block, bytes.
const ENTRIES: usize = 1024;
const ENTRY: usize = 32;
const UNDER_WAY: u64 = 1;

const _: () = assert!(QUEUES + 2 * QUEUE <= ENTRIES && ENTRIES + SLOTS * ENTRY <= LOG);

/// A write that has not been acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoggedWrite {
    /// The slot in whose memory its bytes are.
    pub(crate) slot: usize,
    pub(crate) block: u64,
    /// Bytes.
    pub(crate) len: usize,
    /// Its place among all writes.
    sequence: u64,
}

/// The log of one driver. It is used under the lock of its queue.
#[derive(Debug)]
pub(crate) struct WriteLog {
    memory: DmaMemory,
    /// The number of the next write.
    next: u64,
}

impl WriteLog {
    /// Takes over what the last driver has logged. Memory that is new becomes an empty log.
    ///
    /// # Errors
    /// The memory is another driver's.
    pub(crate) fn open(memory: DmaMemory, slot_bytes: usize) -> Result<Self, NvmeError> {
        let mut log = Self { memory, next: 1 };
        match (log.load(LAYOUT)?, log.load(SLOT_BYTES)?) {
            (0, _) => {
                log.store(SLOT_BYTES, slot_bytes as u64)?;
                log.store(LAYOUT, MAGIC)?;
            }
            (MAGIC, bytes) if bytes == slot_bytes as u64 => {}
            _ => return Err(NvmeError::Controller("what its holder keeps is of another driver")),
        }
        let newest = (0..SLOTS).map(|slot| log.load(at(slot) + 8)).collect::<Result<Vec<_>, _>>()?;
        log.next = newest.into_iter().max().unwrap_or(0).wrapping_add(1);
        Ok(log)
    }

    fn load(&self, at: usize) -> Result<u64, NvmeError> {
        Ok(self.memory.load(at)?)
    }

    fn store(&self, at: usize, value: u64) -> Result<(), NvmeError> {
        Ok(self.memory.store(at, value)?)
    }

    /// L2: notes a write whose bytes are in the memory of `slot`, before it is submitted.
    pub(crate) fn note(&mut self, slot: usize, block: u64, len: usize) -> Result<(), NvmeError> {
        let at = at(slot);
        self.store(at + 8, self.next)?;
        self.store(at + 16, block)?;
        self.store(at + 24, len as u64)?;
        self.next = self.next.wrapping_add(1);
        // SYNC with `load` of the step in `under_way` in the successor: the rest of the entry, and
        // the bytes in the memory of the slot.
        self.store(at, UNDER_WAY)
    }

    /// L4: the disk has ended the write of `slot`, which is acknowledged after this.
    pub(crate) fn forget(&self, slot: usize) {
        // The log has an entry for each slot.
        let _ = self.store(at(slot), 0);
    }

    /// The writes under way, in order. The device can have written to the log, so only those are
    /// returned that a disk of `blocks` blocks of `block` bytes can have; the others are forgotten.
    pub(crate) fn under_way(&self, most: usize, block: usize, blocks: u64) -> Vec<LoggedWrite> {
        let entry = |slot| {
            let at = at(slot);
            // SYNC with `store` of the step in `note` in the last driver.
            let step = self.load(at).ok()?;
            let write = LoggedWrite {
                slot,
                sequence: self.load(at + 8).ok()?,
                block: self.load(at + 16).ok()?,
                len: usize::try_from(self.load(at + 24).ok()?).ok()?,
            };
            let whole = write.len > 0 && write.len <= most && write.len.is_multiple_of(block);
            let end = write.block.checked_add((write.len / block) as u64);
            (step == UNDER_WAY && whole && end.is_some_and(|end| end <= blocks)).then_some(write)
        };
        let mut writes = Vec::new();
        for slot in 0..SLOTS {
            match entry(slot) {
                Some(write) => writes.push(write),
                None => self.forget(slot),
            }
        }
        writes.sort_by_key(|write| write.sequence);
        writes
    }

    /// Leaves the states of the two queues to a successor.
    pub(crate) fn hand_over(&self, queues: [QueueState; 2]) -> Result<(), NvmeError> {
        for (number, queue) in queues.iter().enumerate() {
            for (word, value) in queue.encode().into_iter().enumerate() {
                self.store(QUEUES + number * QUEUE + word * 8, value)?;
            }
        }
        self.store(HANDED_OVER, 1)
    }

    /// Takes the states of the two queues that the last driver has left, once. `None`: there are
    /// none.
    pub(crate) fn take_over(&self) -> Result<Option<[QueueState; 2]>, NvmeError> {
        if self.load(HANDED_OVER)? != 1 {
            return Ok(None);
        }
        self.store(HANDED_OVER, 0)?;
        let state = |number: usize| {
            let mut words = [0; QueueState::WORDS];
            for (word, value) in words.iter_mut().enumerate() {
                *value = self.load(QUEUES + number * QUEUE + word * 8)?;
            }
            Ok::<_, NvmeError>(QueueState::decode(words))
        };
        Ok(state(0)?.zip(state(1)?).map(|(admin, queue)| [admin, queue]))
    }
}

/// Where the entry of a slot is.
fn at(slot: usize) -> usize {
    ENTRIES + slot * ENTRY
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};
    use underpass::device::{Device, DeviceHolder, DeviceSource, HeldDevice};

    const MOST: usize = 8192;
    const BLOCKS: u64 = 1000;

    /// A log in memory that a holder keeps. What is returned is only kept.
    fn log() -> (WriteLog, Device) {
        let (socket, _) = underpass_test_device::start_edu().unwrap();
        let holder = DeviceHolder::open(DeviceSource::vfio_user_socket(socket), LOG).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || holder.lend(ours));
        let held = HeldDevice::take(theirs, Instant::now() + Duration::from_secs(100)).unwrap();
        let device = Device::open(DeviceSource::held(held)).unwrap();
        (WriteLog::open(device.kept_memory(0, LOG).unwrap(), MOST).unwrap(), device)
    }

    /// The log as the next driver finds it.
    fn reopened((log, device): (WriteLog, Device)) -> (WriteLog, Device) {
        drop(log);
        (WriteLog::open(device.kept_memory(0, LOG).unwrap(), MOST).unwrap(), device)
    }

    fn slots(log: &WriteLog) -> Vec<usize> {
        log.under_way(MOST, 512, BLOCKS).iter().map(|write| write.slot).collect()
    }

    #[test]
    fn a_successor_finds_what_is_under_way_in_order() {
        let (mut log, device) = log();
        for slot in [5, 0, 31, 7] {
            log.note(slot, slot as u64 * 8, 4096).unwrap();
        }
        log.forget(0);
        let (mut log, device) = reopened((log, device));
        assert_eq!(slots(&log), [5, 31, 7]);
        log.note(1, 8, 512).unwrap();
        let (log, _device) = reopened((log, device));
        assert_eq!(slots(&log), [5, 31, 7, 1], "later writes have later numbers in the next driver, too");
    }

    /// A kill between any two stores of an entry: before the mark, the log has nothing of it.
    #[test]
    fn an_entry_counts_from_its_mark_on() {
        let (log, _device) = log();
        let stores = [(8, 9u64), (16, 3), (24, 512), (0, UNDER_WAY)];
        for killed_after in 0..=stores.len() {
            for (offset, value) in &stores[..killed_after] {
                log.memory.store(at(4) + offset, *value).unwrap();
            }
            let expected: &[usize] = if killed_after == stores.len() { &[4] } else { &[] };
            assert_eq!(slots(&log), expected, "after {killed_after} stores");
        }
    }

    #[test]
    fn entries_that_can_t_be_are_forgotten() {
        let (mut log, _device) = log();
        let bad =
            [(0, 0), (0, 100), (0, MOST + 512), (999, 1024), (u64::MAX, 512), (1000, 512), (1, usize::MAX)];
        for (slot, (block, len)) in bad.into_iter().enumerate() {
            log.note(slot, block, len).unwrap();
        }
        log.note(20, 998, 1024).unwrap();
        log.memory.store(at(21), 2u64).unwrap();
        assert_eq!(slots(&log), [20]);
        assert_eq!((0..SLOTS).filter(|&slot| log.load(at(slot)).unwrap() != 0).count(), 1);
    }

    #[test]
    fn the_states_of_the_queues_are_taken_once() {
        let (log, device) = log();
        assert_eq!(log.take_over().unwrap(), None);
        let state = |head| QueueState { entries: 64, tail: 3, head, phase: true, uses: [9; SLOTS] };
        log.hand_over([state(1), state(2)]).unwrap();
        let (log, _device) = reopened((log, device));
        assert_eq!(log.take_over().unwrap(), Some([state(1), state(2)]));
        assert_eq!(log.take_over().unwrap(), None);
    }

    #[test]
    fn the_memory_of_another_driver_is_refused() {
        let (log, device) = log();
        drop(log);
        assert!(WriteLog::open(device.kept_memory(0, LOG).unwrap(), MOST / 2).is_err());
        device.kept_memory(0, LOG).unwrap().store(LAYOUT, 7u64).unwrap();
        assert!(WriteLog::open(device.kept_memory(0, LOG).unwrap(), MOST).is_err());
    }
}
