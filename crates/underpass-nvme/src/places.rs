//! Where the memory of a controller lies.

use crate::NvmeError;
use crate::queue::SLOTS;
use crate::write_log::{LOG, WriteLog};
use underpass::device::{Device, DmaMemory};

pub(crate) const PAGE: usize = 4096;
/// The most bytes that one command transfers. Its list of pages fits on one page.
pub(crate) const MOST: usize = 256 * 1024;

/// Pages in the memory that a holder keeps: the log, two for each queue, the slots' lists, and the
/// slots' data. One more is left for the start.
const QUEUES: usize = 1;
const LISTS: usize = QUEUES + 4;
const DATA: usize = LISTS + SLOTS;
const LEFT: usize = 1;

/// The memory of a submission queue and its completion queue.
#[derive(Debug)]
pub(crate) struct QueueMemory {
    pub(crate) submission: DmaMemory,
    pub(crate) completion: DmaMemory,
}

/// The memory of one slot: pages for the data, and the list of their addresses.
#[derive(Debug)]
pub(crate) struct SlotMemory {
    pub(crate) data: DmaMemory,
    list: DmaMemory,
}

/// Where the memory of a controller comes from. If its device has a holder, each part has a place
/// of its own in what the holder keeps, where a successor finds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryPlaces<'a> {
    device: &'a Device,
    /// Bytes of the data of a slot in what the holder keeps.
    kept: Option<usize>,
}

impl<'a> MemoryPlaces<'a> {
    pub(crate) fn of(device: &'a Device) -> Result<Self, NvmeError> {
        let Some(len) = device.kept() else { return Ok(Self { device, kept: None }) };
        let pages = (len / PAGE).saturating_sub(DATA + LEFT) / SLOTS;
        match pages {
            0 => Err(NvmeError::Controller("its holder keeps less than 280 KiB for it")),
            _ => Ok(Self { device, kept: Some((pages * PAGE).min(MOST)) }),
        }
    }

    /// The most bytes of a slot.
    pub(crate) fn most(&self) -> usize {
        self.kept.unwrap_or(MOST)
    }

    /// The log, if a holder keeps it.
    pub(crate) fn log(&self) -> Result<Option<WriteLog>, NvmeError> {
        let Some(slot) = self.kept else { return Ok(None) };
        Ok(Some(WriteLog::open(self.device.kept_memory(0, LOG)?, slot)?))
    }

    /// Memory for queue `number`, 0 or 1, of which the larger part has at most a page in a kept
    /// memory.
    pub(crate) fn queue(&self, number: u16, lens: [usize; 2]) -> Result<QueueMemory, NvmeError> {
        let first = QUEUES + 2 * usize::from(number);
        let place = |page: usize, len| match self.kept {
            Some(_) => self.device.kept_memory(page * PAGE, PAGE),
            None => self.device.dma(len),
        };
        Ok(QueueMemory { submission: place(first, lens[0])?, completion: place(first + 1, lens[1])? })
    }

    /// Memory for one slot, with `len` bytes of data.
    pub(crate) fn slot(&self, number: usize, len: usize) -> Result<SlotMemory, NvmeError> {
        let (data, list) = match self.kept {
            Some(most) => (
                self.device.kept_memory(DATA * PAGE + number * most, len.next_multiple_of(PAGE))?,
                self.device.kept_memory((LISTS + number) * PAGE, PAGE)?,
            ),
            None => (self.device.dma(len)?, self.device.dma(PAGE)?),
        };
        // The first page is named by the command itself.
        for number in 1..len.div_ceil(PAGE) {
            list.store((number - 1) * 8, data.iova() + (number * PAGE) as u64)?;
        }
        Ok(SlotMemory { data, list })
    }
}

impl QueueMemory {
    /// Of a completion queue that starts, no entry looks new.
    pub(crate) fn clear(&self) -> Result<(), NvmeError> {
        Ok(self.completion.copy_in(0, &vec![0; self.completion.len()])?)
    }
}

impl SlotMemory {
    /// The two addresses by which a command names `len` bytes.
    pub(crate) fn addresses(&self, len: usize) -> [u64; 2] {
        let second = match len.div_ceil(PAGE) {
            0 | 1 => 0,
            2 => self.data.iova() + PAGE as u64,
            _ => self.list.iova(),
        };
        [self.data.iova(), second]
    }
}
