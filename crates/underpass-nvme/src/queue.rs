//! A submission queue and its completion queue, with the commands that are under way.
//!
//! A command's id names its slot, and how often the slot was used. A completion for anything but a
//! command under way is counted, and otherwise ignored. So a disk that lies can end a command that
//! is under way too early, which any disk can, and nothing else.

use crate::NvmeError;
use crate::command::{COMMAND, COMPLETION, Completion, NvmeCommand};
use crate::places::{MemoryPlaces, QueueMemory};
use crate::queue_state::{BlockRange, QueueState};
use crate::registers::ControllerRegisters;
use crate::write_log::{LoggedWrite, WriteLog};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use underpass::device::{DeviceError, DeviceEvent, EnabledInterrupt};
use underpass::sync::{self, AcquireTimeoutError, Semaphore};
use underpass::thread::{self, no_preempt};

/// How many commands may be under way. An id has 5 bits for the slot, and 11 for its uses.
pub(crate) const SLOTS: usize = 32;
pub(crate) const SLOT_BITS: u32 = SLOTS.ilog2();
/// Entries of a queue, if the controller takes as many: more than there are slots, so that a queue
/// is never full.
const ENTRIES: u16 = 64;

/// How long a thread that looks now and then waits between two looks.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// More than threads wait for a slot. A queue is stopped a few times at the most, so that the sum
/// fits.
const MANY: usize = 1 << 24;

/// | field | its writer |
/// |---|---|
/// | `state` | under its lock, which is held without preemption and never across a wait |
/// | `filling`, `reading` | held while a doorbell is rung, so that its values only grow |
/// | `stopped` | whoever finds the queue broken, or resets the disk |
#[derive(Debug)]
pub(crate) struct QueuePair {
    number: u16,
    entries: u16,
    registers: ControllerRegisters,
    memory: QueueMemory,
    state: Mutex<State>,
    filling: sync::Mutex<()>,
    reading: sync::Mutex<()>,
    free: Semaphore,
    events: Vec<Arc<DeviceEvent>>,
    stopped: AtomicBool,
    lies: AtomicU64,
}

#[derive(Debug)]
struct State {
    tail: u16,
    head: u16,
    phase: bool,
    /// The disk was not told yet how far its completions were read.
    unsaid: bool,
    slots: [Slot; SLOTS],
    /// If the device has a holder.
    log: Option<WriteLog>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    uses: u16,
    step: Step,
    /// What the log has for it, as long as its write is under way.
    logged: Option<BlockRange>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Free,
    /// A thread waits for it.
    UnderWay,
    /// No thread waits for it any more. The disk may be at it still.
    Abandoned,
    Ended((u8, u8)),
}

/// The right to have one command under way. It is given back when this is dropped. If the disk is
/// still at the command then, it is given back at the command's end.
#[derive(Debug)]
pub(crate) struct CommandSlot<'a> {
    queue: &'a QueuePair,
    pub(crate) number: usize,
}

impl QueuePair {
    /// A pair of queues that are empty, for a controller that is told of them afterwards.
    pub(crate) fn new(
        places: MemoryPlaces<'_>,
        registers: &ControllerRegisters,
        number: u16,
    ) -> Result<Self, NvmeError> {
        let entries = ENTRIES.min(registers.capabilities.entries);
        let state = QueueState { entries, tail: 0, head: 0, phase: true, uses: [0; SLOTS] };
        let queue = Self::of(places, registers, number, state)?;
        queue.memory.clear()?;
        Ok(queue)
    }

    /// The queues as the last driver has left them. `None`: this can't be.
    pub(crate) fn take_over(
        places: MemoryPlaces<'_>,
        registers: &ControllerRegisters,
        number: u16,
        state: QueueState,
    ) -> Result<Option<Self>, NvmeError> {
        if state.entries != ENTRIES.min(registers.capabilities.entries) {
            return Ok(None);
        }
        Self::of(places, registers, number, state).map(Some)
    }

    fn of(
        places: MemoryPlaces<'_>,
        registers: &ControllerRegisters,
        number: u16,
        state: QueueState,
    ) -> Result<Self, NvmeError> {
        let entries = state.entries;
        // One entry stays empty.
        let slots = SLOTS.min(usize::from(entries) - 1);
        let lens = [usize::from(entries) * COMMAND, usize::from(entries) * COMPLETION];
        Ok(Self {
            number,
            entries,
            registers: registers.clone(),
            memory: places.queue(number, lens)?,
            state: Mutex::new(State {
                tail: state.tail,
                head: state.head,
                phase: state.phase,
                unsaid: false,
                slots: state.uses.map(|uses| Slot { uses, ..Slot::default() }),
                log: None,
            }),
            filling: sync::Mutex::new(()),
            reading: sync::Mutex::new(()),
            free: Semaphore::new(slots),
            events: (0..slots).map(|_| Arc::new(DeviceEvent::new())).collect(),
            stopped: AtomicBool::new(false),
            lies: AtomicU64::new(0),
        })
    }

    pub(crate) fn entries(&self) -> u16 {
        self.entries
    }

    /// The device's addresses of the two queues.
    pub(crate) fn addresses(&self) -> (u64, u64) {
        (self.memory.submission.iova(), self.memory.completion.iova())
    }

    /// Completions that were for no command under way.
    pub(crate) fn lies(&self) -> u64 {
        self.lies.load(Ordering::Relaxed)
    }

    /// Runs `what` under the lock. Handlers take it too, so its holder is not preempted.
    fn with<R>(&self, what: impl FnOnce(&mut State) -> R) -> R {
        let _section = no_preempt();
        let mut state: MutexGuard<'_, State> = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        what(&mut state)
    }

    /// Waits for a slot.
    pub(crate) fn slot(&self, deadline: Instant) -> Result<CommandSlot<'_>, NvmeError> {
        if self.is_stopped() {
            return Err(NvmeError::Stopped);
        }
        let permit = self.free.acquire_many_until(1, deadline).map_err(|e| match e {
            AcquireTimeoutError::Timeout => DeviceError::Late("end another command"),
            AcquireTimeoutError::Cancelled => DeviceError::Cancelled,
        })?;
        // The slot gives the permit back.
        permit.forget();
        if self.is_stopped() {
            return Err(NvmeError::Stopped);
        }
        let most = self.events.len();
        let number = self.with(|state| {
            let number = state.slots[..most].iter().position(|slot| slot.step == Step::Free)?;
            // Not under way yet: no completion is for it.
            state.slots[number].step = Step::Ended((0, 0));
            Some(number)
        });
        number.map(|number| CommandSlot { queue: self, number }).ok_or(NvmeError::Stopped)
    }

    /// Takes completions that have come, and signals the threads that wait for them. Returns how
    /// many there were. A handler may call this.
    pub(crate) fn drain(&self) -> usize {
        let (taken, freed) = self.with(|state| self.take(state));
        if freed > 0 {
            self.free.release(freed);
        }
        self.say_how_far();
        taken
    }

    /// Takes completions. Returns how many, and how many slots became free.
    fn take(&self, state: &mut State) -> (usize, usize) {
        let (mut taken, mut freed) = (0, 0);
        // No more than there is room for: a disk can make any number of entries look new.
        while taken < usize::from(self.entries) {
            let at = usize::from(state.head) * COMPLETION + 12;
            let Ok(word) = self.memory.completion.load::<u32>(at) else { break };
            if !Completion::is_new(word, state.phase) {
                break;
            }
            taken += 1;
            state.head += 1;
            if state.head == self.entries {
                (state.head, state.phase) = (0, !state.phase);
            }
            freed += usize::from(self.complete(state, Completion::decode(word)));
        }
        state.unsaid |= taken > 0;
        (taken, freed)
    }

    /// Returns whether this has freed a slot.
    fn complete(&self, state: &mut State, completion: Completion) -> bool {
        let number = usize::from(completion.id) % SLOTS;
        let slot = &mut state.slots[number];
        let of_command = slot.uses == completion.id >> SLOT_BITS;
        if of_command
            && matches!(slot.step, Step::UnderWay | Step::Abandoned)
            && slot.logged.take().is_some()
            && let Some(log) = &state.log
        {
            // L4.
            log.forget(number);
        }
        match slot.step {
            _ if !of_command => {}
            Step::UnderWay => {
                slot.step = Step::Ended(completion.status);
                self.events[number].signal();
                return false;
            }
            Step::Abandoned => {
                slot.step = Step::Free;
                return true;
            }
            Step::Free | Step::Ended(_) => {}
        }
        // Relaxed: a statistic.
        self.lies.fetch_add(1, Ordering::Relaxed);
        false
    }

    /// Tells the disk how far its completions were read. If that can't be told now, it is told with
    /// the next ones.
    fn say_how_far(&self) {
        while let Ok(_reading) = self.reading.try_lock() {
            let head = self.with(|state| std::mem::take(&mut state.unsaid).then_some(state.head));
            let Some(head) = head else { return };
            if self.registers.ring_completion(self.number, head).is_err() {
                self.with(|state| state.unsaid = true);
                return;
            }
        }
    }

    /// Ends all commands, as far as their threads are concerned. The disk may be at them still.
    pub(crate) fn stop(&self) {
        // SYNC with `stopped` load in `is_stopped`.
        self.stopped.store(true, Ordering::Release);
        self.events.iter().for_each(|event| event.signal());
        // For those that wait for a slot. No slot is given out any more.
        self.free.release(MANY);
    }

    /// Logs writes from now on.
    pub(crate) fn log_to(&self, log: WriteLog) {
        self.with(|state| state.log = Some(log));
    }

    /// The writes that the log has.
    pub(crate) fn logged(&self, most: usize, block: usize, blocks: u64) -> Vec<LoggedWrite> {
        self.with(|state| state.log.as_ref().map_or_else(Vec::new, |log| log.under_way(most, block, blocks)))
    }

    /// Forgets a write that was repeated.
    pub(crate) fn forget(&self, slot: usize) {
        self.with(|state| state.log.iter().for_each(|log| log.forget(slot)));
    }

    /// The state of queues under which no command is.
    fn rest(&self) -> Option<QueueState> {
        self.drain();
        self.with(|state| {
            let at_rest = state.slots.iter().all(|slot| slot.step == Step::Free) && !state.unsaid;
            let uses = state.slots.map(|slot| slot.uses);
            let (entries, tail, head, phase) = (self.entries, state.tail, state.head, state.phase);
            at_rest.then_some(QueueState { entries, tail, head, phase, uses })
        })
    }

    /// Leaves this queue and `admin` to the next driver. `false`: a command is under way, or there
    /// is no log.
    pub(crate) fn hand_over(&self, admin: &Self) -> Result<bool, NvmeError> {
        let (Some(of_admin), Some(own)) = (admin.rest(), self.rest()) else { return Ok(false) };
        if self.is_stopped() || admin.is_stopped() {
            return Ok(false);
        }
        self.with(|state| match &state.log {
            Some(log) => log.hand_over([of_admin, own]).map(|()| true),
            None => Ok(false),
        })
    }

    pub(crate) fn is_stopped(&self) -> bool {
        // SYNC with `stopped` store in `stop`.
        self.stopped.load(Ordering::Acquire)
    }
}

/// How a command has ended.
#[derive(Clone, Copy)]
enum CommandEnd {
    /// The disk has given this status: its type and its code.
    Status(u8, u8),
    /// The queue was stopped, and the disk may still be at the command.
    QueueStopped,
}

impl CommandSlot<'_> {
    /// Has the disk do `command`, and waits for its end: for `interrupt`, or by looking now and
    /// then.
    pub(crate) fn run(
        &self,
        command: NvmeCommand,
        interrupt: Option<&EnabledInterrupt>,
        deadline: Instant,
    ) -> Result<(), NvmeError> {
        self.submit(command, None)?;
        self.end(interrupt, deadline)
    }

    /// The same for a write. If the device has a holder, the write is logged, and waits for others
    /// to blocks of its own. These are rare, so that it looks for their end now and then.
    pub(crate) fn run_write(
        &self,
        command: NvmeCommand,
        range: BlockRange,
        interrupt: &EnabledInterrupt,
        deadline: Instant,
    ) -> Result<(), NvmeError> {
        let mut pause = FIRST_PAUSE;
        while !self.submit(command, Some(range))? {
            let now = Instant::now();
            if now >= deadline {
                return Err(DeviceError::Late("end a write to the same blocks").into());
            }
            thread::sleep(pause.min(deadline - now));
            self.queue.drain();
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        self.end(Some(interrupt), deadline)
    }

    /// Waits for the end of the command.
    fn end(&self, interrupt: Option<&EnabledInterrupt>, deadline: Instant) -> Result<(), NvmeError> {
        let ended = match interrupt {
            Some(interrupt) => interrupt.wait(&self.queue.events[self.number], deadline, || self.look()),
            None => self.poll(deadline),
        };
        match ended {
            Ok(CommandEnd::Status(0, 0)) => Ok(()),
            Ok(CommandEnd::Status(kind, code)) => Err(NvmeError::Status(kind, code)),
            Ok(CommandEnd::QueueStopped) => Err(NvmeError::Reset),
            Err(e @ DeviceError::Cancelled) => Err(e.into()),
            Err(e) => {
                // The disk may be at this command for ever.
                self.queue.stop();
                Err(e.into())
            }
        }
    }

    /// `false`: a write to some of these blocks is under way.
    fn submit(&self, command: NvmeCommand, range: Option<BlockRange>) -> Result<bool, NvmeError> {
        let queue = self.queue;
        let submitted = queue.with(|state| {
            // A successor may use the memory already.
            if queue.is_stopped() {
                return Err(NvmeError::Reset);
            }
            if let (Some(range), Some(log)) = (range, &mut state.log) {
                // L2.
                if state.slots.iter().any(|slot| slot.logged.is_some_and(|other| other.overlaps(&range))) {
                    return Ok(false);
                }
                log.note(self.number, range.block, range.len)?;
                state.slots[self.number].logged = Some(range);
            }
            // L3.
            let slot = &mut state.slots[self.number];
            slot.uses = (slot.uses + 1) & (u16::MAX >> SLOT_BITS);
            let id = slot.uses << SLOT_BITS | self.number as u16;
            queue.memory.submission.copy_in(usize::from(state.tail) * COMMAND, &command.encode(id))?;
            slot.step = Step::UnderWay;
            state.tail = (state.tail + 1) % queue.entries;
            Ok(true)
        })?;
        if submitted {
            let _filling = queue.filling.lock().unwrap_or_else(PoisonError::into_inner);
            queue.registers.ring_submission(queue.number, queue.with(|state| state.tail))?;
        }
        Ok(submitted)
    }

    /// How the command has ended, if it has.
    fn look(&self) -> Option<CommandEnd> {
        let step = || self.queue.with(|state| state.slots[self.number].step);
        if step() == Step::UnderWay {
            self.queue.drain();
        }
        match step() {
            Step::Ended((kind, code)) => Some(CommandEnd::Status(kind, code)),
            _ if self.queue.is_stopped() => Some(CommandEnd::QueueStopped),
            _ => None,
        }
    }

    fn poll(&self, deadline: Instant) -> Result<CommandEnd, DeviceError> {
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(ended) = self.look() {
                return Ok(ended);
            }
            let now = Instant::now();
            if now >= deadline {
                return Err(DeviceError::Late("end a command"));
            }
            thread::sleep(pause.min(deadline - now));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

impl Drop for CommandSlot<'_> {
    fn drop(&mut self) {
        let free = self.queue.with(|state| {
            let step = &mut state.slots[self.number].step;
            let free = *step != Step::UnderWay;
            // The disk may still use the memory of a command that is under way.
            *step = if free { Step::Free } else { Step::Abandoned };
            free
        });
        if free {
            self.queue.free.release(1);
        }
    }
}
