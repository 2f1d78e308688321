//! A controller that runs: its queues, and memory for the data of each command.

use crate::NvmeError;
use crate::command::NvmeCommand;
use crate::places::{MOST, MemoryPlaces, PAGE, SlotMemory};
use crate::queue::{QueuePair, SLOTS};
use crate::queue_state::BlockRange;
use crate::registers::ControllerRegisters;
use std::time::Instant;
use underpass::device::{Device, EnabledInterrupt};

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

/// A controller, from its start until it is disabled.
#[derive(Debug)]
pub(crate) struct Controller {
    pub(crate) queue: QueuePair,
    pub(crate) identity: Identity,
    memory: Vec<SlotMemory>,
    /// Kept: the controller may access its queues.
    admin: QueuePair,
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
    /// Stops the controller, if it runs, and starts it. Then has it repeat the writes that the last
    /// driver has left. Each step ends at `deadline` at the latest.
    pub(crate) fn start(
        device: &Device,
        registers: &ControllerRegisters,
        deadline: Instant,
    ) -> Result<Self, NvmeError> {
        registers.disable(deadline)?;
        let places = MemoryPlaces::of(device)?;
        let log = places.log()?;
        let admin = QueuePair::new(places, registers, 0)?;
        let (submission, completion) = admin.addresses();
        registers.enable(admin.entries(), submission, completion, deadline)?;
        let queue = QueuePair::new(places, registers, 1)?;
        let (submission, completion) = queue.addresses();
        let entries = queue.entries();
        let run = |command| admin.slot(deadline)?.run(command, None, deadline);
        run(NvmeCommand::create_completion_queue(1, entries, completion, VECTOR))?;
        run(NvmeCommand::create_submission_queue(1, entries, submission))?;
        let controller = Self::complete(device, places, admin, queue, deadline)?;
        if let Some(log) = log {
            controller.queue.log_to(log);
            controller.repeat(deadline)?;
        }
        Ok(controller)
    }

    /// Goes on with the queues that the last driver has handed over. `None`: it has not.
    pub(crate) fn take_over(
        device: &Device,
        registers: &ControllerRegisters,
        deadline: Instant,
    ) -> Result<Option<Self>, NvmeError> {
        let places = MemoryPlaces::of(device)?;
        let Some(log) = places.log()? else { return Ok(None) };
        let Some([admin, queue]) = log.take_over()? else { return Ok(None) };
        if !device.was_handed_over() || !registers.is_ready()? {
            return Ok(None);
        }
        let admin = QueuePair::take_over(places, registers, 0, admin)?;
        let queue = QueuePair::take_over(places, registers, 1, queue)?;
        let (Some(admin), Some(queue)) = (admin, queue) else { return Ok(None) };
        let controller = Self::complete(device, places, admin, queue, deadline)?;
        controller.queue.log_to(log);
        Ok(Some(controller))
    }

    fn complete(
        device: &Device,
        places: MemoryPlaces<'_>,
        admin: QueuePair,
        queue: QueuePair,
        deadline: Instant,
    ) -> Result<Self, NvmeError> {
        let mut identity = identify(device, &admin, deadline)?;
        identity.most = identity.most.min(places.most());
        let slots = (0..SLOTS).map(|number| places.slot(number, identity.most));
        Ok(Self { queue, memory: slots.collect::<Result<_, _>>()?, identity, admin })
    }

    /// S2: has the disk do the writes that the last driver has left, in their order.
    fn repeat(&self, deadline: Instant) -> Result<(), NvmeError> {
        let (block, blocks) = (self.identity.block, self.identity.blocks);
        for write in self.queue.logged(self.identity.most, block, blocks) {
            let addresses = self.memory[write.slot].addresses(write.len);
            let command = NvmeCommand::write(write.block, (write.len / block) as u16, addresses);
            match self.queue.slot(deadline)?.run(command, None, deadline) {
                // If the disk refuses it, its client has no answer that says otherwise.
                Ok(()) | Err(NvmeError::Status(..)) => self.queue.forget(write.slot),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Leaves the queues to the next driver, if no command is under way.
    pub(crate) fn hand_over(&self) -> Result<bool, NvmeError> {
        self.queue.hand_over(&self.admin)
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
                let range = BlockRange { block, blocks: blocks.into(), len };
                let command = NvmeCommand::write(block, blocks, addresses);
                slot.run_write(command, range, interrupt, deadline)
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
