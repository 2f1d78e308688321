//! A small NVMe disk with its blocks in memory, and the ways in which it can lie.

use crate::bus::DeviceBus;
use crate::ledger::{DiskLedger, DiskWrite};
use crate::server::{DeviceModel, ModelRegion};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const BLOCK: usize = 512;
/// The most pages of one command, as a power of two: 128 KiB.
const MOST_PAGES: u8 = 5;
const ENTRIES: u16 = 256;

/// The register by which a test tells the disk to lie from now on: an [`NvmeFault`], as a number.
pub const FAULT: u64 = 0xf00;

/// How a disk lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum NvmeFault {
    /// Not at all.
    #[default]
    None = 0,
    /// Completions name commands that were never submitted.
    UnknownCommand = 1,
    /// Each command completes twice.
    Twice = 2,
    /// No command completes.
    Silent = 3,
    /// Each command fails.
    Fails = 4,
    /// Every entry of the completion queue looks new, after each command.
    AllNew = 5,
    /// The disk is not ready again after it was stopped.
    NeverReady = 6,
    /// It fails instead of getting ready.
    Fatal = 7,
    /// No interrupts come.
    NoInterrupts = 8,
    /// Interrupts come without end.
    Storm = 9,
    /// It does not stop.
    NeverStops = 10,
}

impl NvmeFault {
    const ALL: [Self; 11] = [
        Self::None,
        Self::UnknownCommand,
        Self::Twice,
        Self::Silent,
        Self::Fails,
        Self::AllNew,
        Self::NeverReady,
        Self::Fatal,
        Self::NoInterrupts,
        Self::Storm,
        Self::NeverStops,
    ];
}

#[derive(Clone, Copy, Debug)]
struct Submission {
    address: u64,
    entries: u16,
    head: u16,
    completes_into: u16,
}

#[derive(Clone, Copy, Debug)]
struct CompletionQueue {
    address: u64,
    entries: u16,
    tail: u16,
    phase: bool,
    vector: Option<u16>,
}

/// A disk of one namespace with blocks of 512 bytes. Its doorbells are 4 bytes apart.
#[derive(Debug)]
pub struct Nvme {
    regions: Vec<ModelRegion>,
    bytes: Vec<u8>,
    configuration: u32,
    status: u32,
    admin_sizes: u32,
    admin: [u64; 2],
    submissions: BTreeMap<u16, Submission>,
    completions: BTreeMap<u16, CompletionQueue>,
    fault: NvmeFault,
    slow: Option<SlowDisk>,
}

/// A disk that takes its time to write, does the write that came last first, and keeps a ledger.
#[derive(Debug)]
struct SlowDisk {
    ledger: DiskLedger,
    /// Writes that it has read and not done: the queue, how far it was read, and the bytes.
    waiting: Vec<(u16, u16, [u8; 64])>,
    next: Instant,
}

/// For so long a slow disk does one write: longer than a killed driver takes to end, so that
/// resets cut some.
const SLOW: Duration = Duration::from_millis(3);

/// The fields of a command.
struct Fields<'a>(&'a [u8; 64]);

impl Fields<'_> {
    fn word(&self, number: usize) -> u32 {
        u32::from_le_bytes(self.0[4 * number..4 * number + 4].try_into().expect("four bytes"))
    }

    fn long(&self, number: usize) -> u64 {
        u64::from(self.word(number)) | u64::from(self.word(number + 1)) << 32
    }

    fn id(&self) -> u16 {
        (self.word(0) >> 16) as u16
    }
}

/// A status: its type and code, as in the specification.
type Status = (u8, u8);
const DONE: Status = (0, 0);
const NO_SUCH_COMMAND: Status = (0, 1);
const WRONG_FIELD: Status = (0, 2);
const NO_MEMORY_THERE: Status = (0, 4);
const BEYOND_THE_END: Status = (0, 0x80);
const NO_SUCH_QUEUE: Status = (1, 1);

impl Nvme {
    /// A disk of `size` bytes, which are zero.
    pub fn new(size: usize) -> Self {
        let mut regions: Vec<_> = (0..9).map(|_| ModelRegion { size: 0, file: None }).collect();
        regions[0].size = 0x2000;
        Self {
            regions,
            bytes: vec![0; size],
            configuration: 0,
            status: 0,
            admin_sizes: 0,
            admin: [0; 2],
            submissions: BTreeMap::new(),
            completions: BTreeMap::new(),
            fault: NvmeFault::None,
            slow: None,
        }
    }

    /// A disk that takes some time for each write and may change their order. It notes in
    /// `ledger` what it does. A reset cuts the writes that it has not done: each is done in half.
    pub fn slow(size: usize, ledger: DiskLedger) -> Self {
        let slow = SlowDisk { ledger, waiting: Vec::new(), next: Instant::now() };
        Self { slow: Some(slow), ..Self::new(size) }
    }

    /// Cuts the writes that were not done.
    fn cut(&mut self, bus: &DeviceBus) {
        let Some(slow) = &mut self.slow else { return };
        for (_, _, command) in std::mem::take(&mut slow.waiting) {
            let fields = Fields(&command);
            if let Some(write) = write_of(&fields) {
                let ledger = self.slow.as_ref().map(|slow| slow.ledger.clone());
                let head = self.head(bus, &fields);
                // If its fields can't be, nothing of it is done.
                let _ = self.transfer(bus, &fields, write.blocks as usize / 2);
                ledger.iter().for_each(|ledger| {
                    ledger.with(|history| history.cut.push(DiskWrite { head, ..write }));
                });
            }
        }
    }

    /// The first bytes that a write has.
    fn head(&self, bus: &DeviceBus, command: &Fields<'_>) -> u64 {
        let mut head = [0; 8];
        bus.read(command.long(6), &mut head);
        u64::from_le_bytes(head)
    }

    /// Does the command that came last, if it is time.
    fn do_one(&mut self, bus: &DeviceBus) {
        let Some(slow) = &mut self.slow else { return };
        let left = slow.next.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            // Messages come first, such as a reset.
            std::thread::sleep(left.min(Duration::from_micros(100)));
            return;
        }
        slow.next = Instant::now() + SLOW;
        let ledger = slow.ledger.clone();
        let Some((number, head, command)) = slow.waiting.pop() else { return };
        let fields = Fields(&command);
        if let Some(write) = write_of(&fields) {
            let head = self.head(bus, &fields);
            ledger.with(|history| history.writes.push(DiskWrite { head, ..write }));
        }
        self.execute(bus, number, head, &command);
    }

    fn execute(&mut self, bus: &DeviceBus, number: u16, head: u16, command: &[u8; 64]) {
        let fields = Fields(command);
        let blocks = (fields.word(12) & 0xffff) as usize + 1;
        let ended = match number {
            0 => self.administer(bus, &fields),
            _ => self.transfer(bus, &fields, blocks),
        };
        let status = ended.err().unwrap_or(DONE);
        if let Some(into) = self.submissions.get(&number).map(|queue| queue.completes_into) {
            self.complete(bus, into, fields.id(), status, u32::from(head) | u32::from(number) << 16);
        }
    }

    fn configure(&mut self, bus: &DeviceBus, value: u32) {
        let (was, is) = (self.configuration & 1, value & 1);
        self.configuration = value;
        match (was, is) {
            (0, 1) => {
                if let Some(slow) = &self.slow {
                    slow.ledger.with(|history| history.starts += 1);
                }
                self.status = match self.fault {
                    NvmeFault::NeverReady => 0,
                    NvmeFault::Fatal => 2,
                    _ => 1,
                };
                let (submission, completion) =
                    ((self.admin_sizes & 0xfff) as u16 + 1, (self.admin_sizes >> 16 & 0xfff) as u16 + 1);
                let [to, from] = self.admin;
                self.submissions
                    .insert(0, Submission { address: to, entries: submission, head: 0, completes_into: 0 });
                let vector = Some(0);
                self.completions.insert(
                    0,
                    CompletionQueue { address: from, entries: completion, tail: 0, phase: true, vector },
                );
            }
            (_, 0) if self.fault != NvmeFault::NeverStops => {
                self.cut(bus);
                self.status = 0;
                self.submissions.clear();
                self.completions.clear();
            }
            _ => {}
        }
    }

    fn doorbell(&mut self, bus: &DeviceBus, number: u64, value: u16) {
        let queue = (number / 2) as u16;
        // How far completions were read is not needed: there are never more than commands.
        if number.is_multiple_of(2) {
            self.submitted(bus, queue, value);
        }
    }

    fn submitted(&mut self, bus: &DeviceBus, number: u16, tail: u16) {
        while let Some(queue) = self.submissions.get_mut(&number)
            && queue.head != tail
            && tail < queue.entries
        {
            let address = queue.address + u64::from(queue.head) * 64;
            queue.head = (queue.head + 1) % queue.entries;
            let head = queue.head;
            let mut command = [0; 64];
            if !bus.read(address, &mut command) {
                self.status |= 2;
                return;
            }
            match &mut self.slow {
                Some(slow) if number > 0 && write_of(&Fields(&command)).is_some() => {
                    slow.waiting.push((number, head, command))
                }
                _ => self.execute(bus, number, head, &command),
            }
        }
    }

    /// Writes the completion of a command, or what the fault makes of it.
    fn complete(&mut self, bus: &DeviceBus, queue: u16, id: u16, status: Status, from: u32) {
        let lies = queue != 0;
        match self.fault {
            NvmeFault::Silent if lies => return,
            NvmeFault::UnknownCommand if lies => self.put(bus, queue, id ^ 0x40, status, from),
            NvmeFault::Fails if lies => self.put(bus, queue, id, (2, 0x81), from),
            NvmeFault::Twice if lies => {
                self.put(bus, queue, id, status, from);
                self.put(bus, queue, id, status, from);
            }
            NvmeFault::AllNew if lies => {
                self.put(bus, queue, id, status, from);
                for number in 1..self.completions.get(&queue).map_or(0, |queue| queue.entries) {
                    self.put(bus, queue, id.wrapping_add(number), status, from);
                }
            }
            _ => self.put(bus, queue, id, status, from),
        }
        let vector = self.completions.get(&queue).and_then(|queue| queue.vector);
        if let Some(vector) = vector
            && self.fault != NvmeFault::NoInterrupts
        {
            bus.raise(vector.into());
        }
    }

    fn put(&mut self, bus: &DeviceBus, queue: u16, id: u16, status: Status, from: u32) {
        let Some(queue) = self.completions.get_mut(&queue) else { return };
        let address = queue.address + u64::from(queue.tail) * 16;
        let mut first = [0; 12];
        first[8..].copy_from_slice(&from.to_le_bytes());
        bus.write(address, &first);
        let (kind, code) = (u32::from(status.0), u32::from(status.1));
        let last = u32::from(id) | u32::from(queue.phase) << 16 | code << 17 | kind << 25;
        // After the rest of the entry.
        bus.store(address + 12, last);
        queue.tail += 1;
        if queue.tail == queue.entries {
            (queue.tail, queue.phase) = (0, !queue.phase);
        }
    }

    fn administer(&mut self, bus: &DeviceBus, command: &Fields<'_>) -> Result<(), Status> {
        let (queue, entries) = (command.word(10) as u16, (command.word(10) >> 16) as u16);
        match command.word(0) as u8 {
            0x06 => {
                let page = self.identify(command.word(10) & 0xff).ok_or(WRONG_FIELD)?;
                if bus.write(command.long(6), &page) { Ok(()) } else { Err(NO_MEMORY_THERE) }
            }
            0x05 => {
                let entries = entries.checked_add(1).ok_or(WRONG_FIELD)?;
                let vector = (command.word(11) & 2 != 0).then_some((command.word(11) >> 16) as u16);
                let made =
                    CompletionQueue { address: command.long(6), entries, tail: 0, phase: true, vector };
                self.completions.insert(queue, made);
                Ok(())
            }
            0x01 => {
                let entries = entries.checked_add(1).ok_or(WRONG_FIELD)?;
                let completes_into = (command.word(11) >> 16) as u16;
                if !self.completions.contains_key(&completes_into) {
                    return Err(NO_SUCH_QUEUE);
                }
                let made = Submission { address: command.long(6), entries, head: 0, completes_into };
                self.submissions.insert(queue, made);
                Ok(())
            }
            _ => Err(NO_SUCH_COMMAND),
        }
    }

    fn identify(&self, what: u32) -> Option<[u8; PAGE]> {
        let mut page = [0; PAGE];
        match what {
            0 => {
                let blocks = (self.bytes.len() / BLOCK) as u64;
                page[..8].copy_from_slice(&blocks.to_le_bytes());
                page[130] = BLOCK.ilog2() as u8;
            }
            1 => {
                page[4..64].fill(b' ');
                page[4..10].copy_from_slice(b"UP0001");
                page[24..34].copy_from_slice(b"small disk");
                page[77] = MOST_PAGES;
            }
            _ => return None,
        }
        Some(page)
    }

    /// Transfers the first `done` blocks of a command.
    fn transfer(&mut self, bus: &DeviceBus, command: &Fields<'_>, done: usize) -> Result<(), Status> {
        let opcode = command.word(0) as u8;
        if opcode == 0 {
            return Ok(());
        }
        let len = ((command.word(12) & 0xffff) as usize + 1) * BLOCK;
        let begin = command.long(10).checked_mul(BLOCK as u64).ok_or(BEYOND_THE_END)?;
        let begin = usize::try_from(begin).map_err(|_| BEYOND_THE_END)?;
        let end = begin.checked_add(len).filter(|&end| end <= self.bytes.len()).ok_or(BEYOND_THE_END)?;
        if len > PAGE << MOST_PAGES {
            return Err(WRONG_FIELD);
        }
        let bytes = &mut self.bytes[begin..end.min(begin + done * BLOCK)];
        for (number, part) in bytes.chunks_mut(PAGE).enumerate() {
            let address = match number {
                0 => command.long(6),
                1 if len <= 2 * PAGE => command.long(8),
                _ => {
                    let mut address = [0; 8];
                    let at = command.long(8) + (number as u64 - 1) * 8;
                    if !bus.read(at, &mut address) {
                        return Err(NO_MEMORY_THERE);
                    }
                    u64::from_le_bytes(address)
                }
            };
            let done = match opcode {
                1 => bus.read(address, part),
                2 => bus.write(address, part),
                _ => return Err(NO_SUCH_COMMAND),
            };
            if !done {
                return Err(NO_MEMORY_THERE);
            }
        }
        Ok(())
    }
}

/// The blocks of a command, if it writes.
fn write_of(command: &Fields<'_>) -> Option<DiskWrite> {
    let blocks = u64::from(command.word(12) & 0xffff) + 1;
    (command.word(0) as u8 == 1).then_some(DiskWrite { block: command.long(10), blocks, head: 0 })
}

impl DeviceModel for Nvme {
    fn regions(&self) -> &[ModelRegion] {
        &self.regions
    }

    fn vectors(&self) -> u32 {
        1
    }

    fn read(&mut self, _: &DeviceBus, _: u32, offset: u64, bytes: &mut [u8]) -> Result<(), i32> {
        let value = match offset {
            // Contiguous queues, 10 s to get ready, the NVM command set, pages of 4 KiB.
            0x00 => u64::from(ENTRIES - 1) | 1 << 16 | 20 << 24 | 1 << 37,
            0x08 => 0x0001_0400,
            0x14 => self.configuration.into(),
            0x1c => self.status.into(),
            0x24 => self.admin_sizes.into(),
            0x28 => self.admin[0],
            0x30 => self.admin[1],
            _ => 0,
        };
        bytes.iter_mut().zip(value.to_le_bytes()).for_each(|(byte, of)| *byte = of);
        Ok(())
    }

    fn write(&mut self, bus: &DeviceBus, _: u32, offset: u64, bytes: &[u8]) -> Result<(), i32> {
        let mut value = [0; 8];
        value.iter_mut().zip(bytes).for_each(|(of, byte)| *of = *byte);
        let value = u64::from_le_bytes(value);
        match offset {
            0x14 => self.configure(bus, value as u32),
            0x24 => self.admin_sizes = value as u32,
            0x28 => self.admin[0] = value,
            0x30 => self.admin[1] = value,
            FAULT => {
                self.fault = NvmeFault::ALL.get(value as usize).copied().unwrap_or_default();
            }
            0x1000.. => self.doorbell(bus, (offset - 0x1000) / 4, value as u16),
            _ => {}
        }
        Ok(())
    }

    fn reset(&mut self, bus: &DeviceBus) {
        self.cut(bus);
        let (bytes, regions) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.regions));
        let slow = self.slow.take();
        *self = Self { bytes, regions, slow, ..Self::new(0) };
    }

    fn act(&mut self, bus: &DeviceBus) -> bool {
        if self.slow.as_ref().is_some_and(|slow| !slow.waiting.is_empty()) {
            self.do_one(bus);
            return true;
        }
        let storms = self.fault == NvmeFault::Storm;
        if storms {
            bus.raise(0);
        }
        storms
    }
}
