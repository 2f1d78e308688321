//! A controller that runs: its queues, and memory for the data of each command.

use crate::NvmeError;
use crate::command::NvmeCommand;
use crate::queue::{QueuePair, SLOTS};
use crate::registers::ControllerRegisters;
use std::time::Instant;
use underpass::device::{Device, DmaMemory, EnabledInterrupt};

const PAGE: usize = 4096;
/// The most bytes that one command transfers. Its list of pages fits on one page.
const MOST: usize = 256 * 1024;
/// The vector of the queue for reads and writes.
pub(crate) const VECTOR: u16 = 0;

/// What is known of a disk.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) serial: String,
    pub(crate) model: String,
    /// Bytes of a block.
    pub(crate) block: usize,
    pub(crate) blocks: u64,
    /// The most bytes that one command transfers.
    most: usize,
}

/// The memory of one slot: pages for the data, and the list of their addresses.
#[derive(Debug)]
struct SlotMemory {
    data: DmaMemory,
    list: DmaMemory,
}

impl SlotMemory {
    fn new(device: &Device, len: usize) -> Result<Self, NvmeError> {
        let (data, list) = (device.dma(len)?, device.dma(PAGE)?);
        // The first page is named by the command itself.
        for number in 1..len.div_ceil(PAGE) {
            list.store((number - 1) * 8, data.iova() + (number * PAGE) as u64)?;
        }
        Ok(Self { data, list })
    }

    /// The two addresses by which a command names `len` bytes.
    fn addresses(&self, len: usize) -> [u64; 2] {
        let second = match len.div_ceil(PAGE) {
            0 | 1 => 0,
            2 => self.data.iova() + PAGE as u64,
            _ => self.list.iova(),
        };
        [self.data.iova(), second]
    }
}

/// A controller, from its start until it is disabled.
#[derive(Debug)]
pub(crate) struct Controller {
    pub(crate) queue: QueuePair,
    pub(crate) identity: Identity,
    memory: Vec<SlotMemory>,
    /// Kept: the controller may access its queues.
    _admin: QueuePair,
}

/// What a command does with bytes.
#[derive(Debug)]
pub(crate) enum Transfer<'a> {
    Read(&'a mut [u8]),
    Write(&'a [u8]),
}

impl Transfer<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Read(bytes) => bytes.len(),
            Self::Write(bytes) => bytes.len(),
        }
    }
}

impl Controller {
    /// Stops the controller, if it runs, and starts it. Each step ends at `deadline` at the latest.
    pub(crate) fn start(
        device: &Device,
        registers: &ControllerRegisters,
        deadline: Instant,
    ) -> Result<Self, NvmeError> {
        registers.disable(deadline)?;
        let admin = QueuePair::new(device, registers, 0)?;
        let (submission, completion) = admin.addresses();
        registers.enable(admin.entries(), submission, completion, deadline)?;
        let identity = identify(device, &admin, deadline)?;
        let queue = QueuePair::new(device, registers, 1)?;
        let (submission, completion) = queue.addresses();
        let entries = queue.entries();
        let run = |command| admin.slot(deadline)?.run(command, None, deadline);
        run(NvmeCommand::create_completion_queue(1, entries, completion, VECTOR))?;
        run(NvmeCommand::create_submission_queue(1, entries, submission))?;
        let memory = (0..SLOTS).map(|_| SlotMemory::new(device, identity.most)).collect::<Result<_, _>>()?;
        Ok(Self { queue, identity, memory, _admin: admin })
    }

    /// The most bytes that one command transfers: whole blocks.
    pub(crate) fn most(&self) -> usize {
        self.identity.most
    }

    /// Transfers whole blocks, from `block` on. The caller has checked both against the disk.
    pub(crate) fn transfer(
        &self,
        block: u64,
        bytes: Transfer<'_>,
        interrupt: &EnabledInterrupt,
        deadline: Instant,
    ) -> Result<(), NvmeError> {
        let len = bytes.len();
        debug_assert!(len > 0 && len <= self.identity.most && len.is_multiple_of(self.identity.block));
        let blocks = (len / self.identity.block) as u16;
        let slot = self.queue.slot(deadline)?;
        let memory = &self.memory[slot.number];
        let addresses = memory.addresses(len);
        match bytes {
            Transfer::Write(bytes) => {
                memory.data.copy_in(0, bytes)?;
                slot.run(NvmeCommand::write(block, blocks, addresses), Some(interrupt), deadline)
            }
            Transfer::Read(bytes) => {
                slot.run(NvmeCommand::read(block, blocks, addresses), Some(interrupt), deadline)?;
                Ok(memory.data.copy_out(0, bytes)?)
            }
        }
    }

    pub(crate) fn flush(&self, interrupt: &EnabledInterrupt, deadline: Instant) -> Result<(), NvmeError> {
        self.queue.slot(deadline)?.run(NvmeCommand::flush(), Some(interrupt), deadline)
    }
}

fn identify(device: &Device, admin: &QueuePair, deadline: Instant) -> Result<Identity, NvmeError> {
    let memory = device.dma(PAGE)?;
    let tell = |what| {
        admin.slot(deadline)?.run(NvmeCommand::identify(what, memory.iova()), None, deadline)?;
        let mut told = [0; PAGE];
        memory.copy_out(0, &mut told)?;
        Ok::<_, NvmeError>(told)
    };
    understand(&tell(1)?, &tell(0)?)
}

/// What the disk says of itself, checked.
fn understand(controller: &[u8; PAGE], namespace: &[u8; PAGE]) -> Result<Identity, NvmeError> {
    let text = |range: std::ops::Range<usize>| {
        String::from_utf8_lossy(&controller[range]).trim_end_matches([' ', '\0']).to_owned()
    };
    let blocks = u64::from_le_bytes(*namespace.first_chunk().expect("a page has eight bytes"));
    // Which of 16 formats its blocks have, and the power of two of their bytes.
    let format = 128 + 4 * usize::from(namespace[26] & 0xf);
    let power = namespace[format + 2];
    if !(9..=12).contains(&power) {
        return Err(NvmeError::Controller("its blocks have neither 512 nor 1024, 2048 or 4096 bytes"));
    }
    if blocks == 0 || blocks > u64::MAX >> power {
        return Err(NvmeError::Controller("it says how many blocks it has, and that can't be"));
    }
    // A power of two of pages; 0: any number.
    let most = match controller[77] {
        0 => MOST,
        pages => PAGE.checked_shl(pages.into()).filter(|&most| most > 0).map_or(MOST, |most| most.min(MOST)),
    };
    Ok(Identity { serial: text(4..24), model: text(24..64), block: 1 << power, blocks, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(power: u8, blocks: u64, most: u8) -> ([u8; PAGE], [u8; PAGE]) {
        let (mut controller, mut namespace) = ([b' '; PAGE], [0; PAGE]);
        controller[4..7].copy_from_slice(b"ABC");
        controller[77] = most;
        namespace[..8].copy_from_slice(&blocks.to_le_bytes());
        namespace[26] = 2;
        namespace[128 + 8 + 2] = power;
        (controller, namespace)
    }

    #[test]
    fn a_disk_says_what_it_is() {
        let (controller, namespace) = pages(9, 1000, 5);
        let identity = understand(&controller, &namespace).unwrap();
        assert_eq!((identity.block, identity.blocks, identity.most), (512, 1000, 32 * PAGE));
        assert_eq!((&*identity.serial, &*identity.model), ("ABC", ""));
        for (most, expected) in [(0, MOST), (1, 2 * PAGE), (6, MOST), (60, MOST), (255, MOST)] {
            let (controller, namespace) = pages(12, 1, most);
            assert_eq!(understand(&controller, &namespace).unwrap().most, expected, "{most}");
        }
    }

    #[test]
    fn what_can_t_be_is_refused() {
        for (power, blocks) in [(0, 1), (8, 1), (13, 1), (255, 1), (9, 0), (9, u64::MAX), (12, 1 << 52)] {
            let (controller, namespace) = pages(power, blocks, 0);
            assert!(understand(&controller, &namespace).is_err(), "{power} {blocks}");
        }
    }
}
