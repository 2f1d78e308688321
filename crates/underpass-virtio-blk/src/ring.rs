//! The queue of a disk: its descriptors, the ring of requests, the ring of those that have ended,
//! and the requests under way (virtio 1.1, section 2.6).
//!
//! Slot `n` has the descriptors `3n` to `3n + 2`: the request's head, its data, its status. An
//! element of the used ring counts if it names the first descriptor of a slot that is under way.

use crate::VirtioError;
use crate::registers::VirtioRegisters;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use underpass::device::{Device, DeviceError, DeviceEvent, DmaMemory, EnabledInterrupt};
use underpass::sync::{AcquireTimeoutError, Semaphore};
use underpass::thread::no_preempt;

/// Requests that may be under way.
pub(crate) const SLOTS: usize = 16;
/// Descriptors, at least three for each slot: a power of two.
pub(crate) const ENTRIES: u16 = 64;
/// The most bytes of one request.
pub(crate) const MOST: usize = 128 * 1024;

const PAGE: usize = 4096;
/// Where the parts lie in the memory.
const DESCRIPTORS: usize = 0;
const DRIVER: usize = PAGE;
const DEVICE: usize = 2 * PAGE;
const HEADS: usize = 3 * PAGE;
const DATA: usize = 4 * PAGE;
/// Bytes of a head: the request, and the byte of its status behind.
const HEAD: usize = 32;
const STATUS: usize = 16;

const NEXT: u16 = 1;
const DEVICE_WRITES: u16 = 2;

const _: () = assert!(3 * SLOTS <= ENTRIES as usize && SLOTS * HEAD <= PAGE);

/// What a request does with bytes.
pub(crate) enum Request<'a> {
    Read(&'a mut [u8]),
    Write(&'a [u8]),
    Flush,
}

/// | field | its writer |
/// |---|---|
/// | `state` | under its lock, which is held without preemption and never across a wait |
/// | `stopped` | whoever finds the queue broken, or resets the disk |
#[derive(Debug)]
pub(crate) struct VirtioRing {
    registers: VirtioRegisters,
    memory: DmaMemory,
    state: Mutex<RingState>,
    free: Semaphore,
    events: Vec<Arc<DeviceEvent>>,
    stopped: AtomicBool,
    lies: AtomicU64,
}

#[derive(Debug)]
struct RingState {
    submitted: u16,
    seen: u16,
    steps: [Step; SLOTS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Free,
    UnderWay,
    /// No thread waits for it any more. The disk may be at it still.
    Abandoned,
    Ended,
}

/// The right to have one request under way.
struct RequestSlot<'a> {
    ring: &'a VirtioRing,
    number: usize,
}

impl VirtioRing {
    pub(crate) fn new(device: &Device, registers: &VirtioRegisters) -> Result<Self, VirtioError> {
        Ok(Self {
            registers: registers.clone(),
            memory: device.dma(DATA + SLOTS * MOST)?,
            state: Mutex::new(RingState { submitted: 0, seen: 0, steps: [Step::Free; SLOTS] }),
            free: Semaphore::new(SLOTS),
            events: (0..SLOTS).map(|_| Arc::new(DeviceEvent::new())).collect(),
            stopped: AtomicBool::new(false),
            lies: AtomicU64::new(0),
        })
    }

    /// The device's addresses of the descriptors, and of the two rings.
    pub(crate) fn parts(&self) -> [u64; 3] {
        [DESCRIPTORS, DRIVER, DEVICE].map(|part| self.memory.iova() + part as u64)
    }

    /// Ended requests that were never under way.
    pub(crate) fn lies(&self) -> u64 {
        self.lies.load(Ordering::Relaxed)
    }

    /// Runs `what` under the lock. Handlers take it too, so its holder is not preempted.
    fn with<R>(&self, what: impl FnOnce(&mut RingState) -> R) -> R {
        let _section = no_preempt();
        what(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn slot(&self, deadline: Instant) -> Result<RequestSlot<'_>, VirtioError> {
        let permit = self.free.acquire_many_until(1, deadline).map_err(|e| match e {
            AcquireTimeoutError::Timeout => DeviceError::Late("end another request"),
            AcquireTimeoutError::Cancelled => DeviceError::Cancelled,
        })?;
        // The slot gives the permit back.
        permit.forget();
        if self.is_stopped() {
            return Err(VirtioError::Stopped);
        }
        let number = self.with(|state| {
            let number = state.steps.iter().position(|step| *step == Step::Free)?;
            // Not under way yet: no element is for it.
            state.steps[number] = Step::Ended;
            Some(number)
        });
        number.map(|number| RequestSlot { ring: self, number }).ok_or(VirtioError::Stopped)
    }

    /// Has the disk do a request, and waits for its end.
    pub(crate) fn run(
        &self,
        sector: u64,
        mut request: Request<'_>,
        interrupt: &EnabledInterrupt,
        deadline: Instant,
    ) -> Result<(), VirtioError> {
        let slot = self.slot(deadline)?;
        slot.submit(sector, &request)?;
        let ended = interrupt.wait(&self.events[slot.number], deadline, || slot.look());
        match ended {
            Ok(true) => {}
            Ok(false) => return Err(VirtioError::Reset),
            Err(e @ DeviceError::Cancelled) => return Err(e.into()),
            Err(e) => {
                // The disk may be at this request for ever.
                self.stop();
                return Err(e.into());
            }
        }
        match self.memory.load::<u8>(slot.head() + STATUS)? {
            0 => {}
            status => return Err(VirtioError::Status(status)),
        }
        if let Request::Read(bytes) = &mut request {
            self.memory.copy_out(slot.data(), bytes)?;
        }
        Ok(())
    }

    /// Takes what has ended, and signals the threads that wait for it. Returns how many there were.
    /// A handler may call this.
    pub(crate) fn drain(&self) -> usize {
        let (taken, freed) = self.with(|state| {
            let (mut taken, mut freed) = (0, 0);
            // No more than there is room for: a disk can claim any number.
            let Ok(used) = self.memory.load::<u16>(DEVICE + 2) else { return (0, 0) };
            while state.seen != used && taken < usize::from(ENTRIES) {
                let at = DEVICE + 4 + usize::from(state.seen % ENTRIES) * 8;
                let Ok(first) = self.memory.load::<u32>(at) else { break };
                state.seen = state.seen.wrapping_add(1);
                taken += 1;
                freed += usize::from(self.complete(state, first));
            }
            (taken, freed)
        });
        if freed > 0 {
            self.free.release(freed);
        }
        taken
    }

    /// Returns whether this has freed a slot.
    fn complete(&self, state: &mut RingState, first: u32) -> bool {
        let number = (first / 3) as usize;
        match state.steps.get(number).filter(|_| first.is_multiple_of(3)) {
            Some(Step::UnderWay) => {
                state.steps[number] = Step::Ended;
                self.events[number].signal();
                false
            }
            Some(Step::Abandoned) => {
                state.steps[number] = Step::Free;
                true
            }
            _ => {
                // Relaxed: a statistic.
                self.lies.fetch_add(1, Ordering::Relaxed);
                false
            }
        }
    }

    /// Ends all requests, as far as their threads are concerned. The disk may be at them still.
    pub(crate) fn stop(&self) {
        // SYNC with `stopped` load in `is_stopped`.
        self.stopped.store(true, Ordering::Release);
        self.events.iter().for_each(|event| event.signal());
        // For those that wait for a slot. No slot is given out any more.
        self.free.release(1 << 24);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        // SYNC with `stopped` store in `stop`.
        self.stopped.load(Ordering::Acquire)
    }
}

impl RequestSlot<'_> {
    fn head(&self) -> usize {
        HEADS + self.number * HEAD
    }

    fn data(&self) -> usize {
        DATA + self.number * MOST
    }

    /// Writes descriptor `number`.
    fn describe(&self, number: u16, at: usize, len: u32, flags: u16) -> Result<(), VirtioError> {
        let memory = &self.ring.memory;
        let entry = DESCRIPTORS + usize::from(number) * 16;
        memory.store(entry, memory.iova() + at as u64)?;
        memory.store(entry + 8, len)?;
        memory.store(entry + 12, flags)?;
        Ok(memory.store(entry + 14, number + 1)?)
    }

    fn submit(&self, sector: u64, request: &Request<'_>) -> Result<(), VirtioError> {
        let (memory, first) = (&self.ring.memory, 3 * self.number as u16);
        let (kind, len, direction) = match request {
            Request::Read(bytes) => (0u32, bytes.len(), DEVICE_WRITES),
            Request::Write(bytes) => (1, bytes.len(), 0),
            Request::Flush => (4, 0, 0),
        };
        if let Request::Write(bytes) = request {
            memory.copy_in(self.data(), bytes)?;
        }
        memory.store(self.head(), kind)?;
        memory.store(self.head() + 4, 0u32)?;
        memory.store(self.head() + 8, sector)?;
        // A disk that ends it without saying how has failed.
        memory.store(self.head() + STATUS, 0xffu8)?;
        self.describe(first, self.head(), 16, NEXT)?;
        self.describe(first + 1, self.data(), len as u32, direction | NEXT)?;
        self.describe(first + 2, self.head() + STATUS, 1, DEVICE_WRITES)?;
        if len == 0 {
            // No data: the head leads to the status.
            memory.store(DESCRIPTORS + usize::from(first) * 16 + 14, first + 2)?;
        }
        self.ring.with(|state| {
            if self.ring.is_stopped() {
                return Err(VirtioError::Reset);
            }
            state.steps[self.number] = Step::UnderWay;
            memory.store(DRIVER + 4 + usize::from(state.submitted % ENTRIES) * 2, first)?;
            state.submitted = state.submitted.wrapping_add(1);
            // SYNC with the device's read of it: the entry, the descriptors, the head and the data.
            Ok(memory.store(DRIVER + 2, state.submitted)?)
        })?;
        self.ring.registers.notify()
    }

    /// Whether the request has ended: by the disk, or since the queue was stopped.
    fn look(&self) -> Option<bool> {
        let step = || self.ring.with(|state| state.steps[self.number]);
        if step() == Step::UnderWay {
            self.ring.drain();
        }
        match step() {
            Step::Ended => Some(true),
            _ if self.ring.is_stopped() => Some(false),
            _ => None,
        }
    }
}

impl Drop for RequestSlot<'_> {
    fn drop(&mut self) {
        let free = self.ring.with(|state| {
            let step = &mut state.steps[self.number];
            let free = *step != Step::UnderWay;
            // The disk may still use the memory of a request that is under way.
            *step = if free { Step::Free } else { Step::Abandoned };
            free
        });
        if free {
            self.ring.free.release(1);
        }
    }
}
