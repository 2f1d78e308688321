//! One vector of a device: its event counter, its handler, and the threads that wait for it.

use crate::interrupts::affinity::AffinityControl;
use crate::interrupts::counter::EventCounter;
use crate::interrupts::dispatcher::{Dispatcher, act};
use crate::interrupts::event::DeviceEvent;
use crate::interrupts::gate::VectorGate;
use crate::interrupts::storm::StormGuard;
use crate::lock::lock;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use underpass_os::clock::now_ns;

/// Whether a handler found something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptOutcome {
    /// The device had something for it.
    Handled,
    /// The device had nothing for it. Many of these in a row are a storm.
    Nothing,
}

/// What a handler is told. It runs between two threads of an activation, with preemption off.
#[derive(Debug)]
pub struct DeviceUpcall<'a> {
    /// How many interrupts have come since the last upcall. 0: the device is gone, or a storm is
    /// over, and the handler is to look all the same.
    pub interrupts: u64,
    vector: &'a Vector,
}

impl DeviceUpcall<'_> {
    /// Signals each event on which a thread [waits](crate::EnabledInterrupt::wait) for this vector.
    pub fn wake_all(&self) {
        self.vector.signal_waiters();
    }
}

/// How often the interrupts of a vector came, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InterruptCounts {
    /// Interrupts that the device has signalled, as far as they were taken.
    pub interrupts: u64,
    /// Runs of the handler.
    pub upcalls: u64,
    /// Runs on the activation of the thread that waited for the vector, or registered it.
    pub met: u64,
    /// Runs on the CPU that the hardware has interrupted, as far as that is known: see
    /// [`bring_together`](crate::EnabledInterrupt::bring_together).
    pub near: u64,
    /// How often the interrupt, or the thread, was moved to the other one's CPU.
    pub moves: u64,
    /// How often the system has refused a move.
    pub unmoved: u64,
    /// Runs that found nothing to do.
    pub spurious: u64,
    /// How often a storm has masked the vector.
    pub storms: u64,
    /// Waits that polling ended.
    pub polled: u64,
    /// Waits that went to sleep.
    pub blocked: u64,
}

#[derive(Debug, Default)]
struct Counts {
    interrupts: AtomicU64,
    upcalls: AtomicU64,
    met: AtomicU64,
    near: AtomicU64,
    spurious: AtomicU64,
    storms: AtomicU64,
    polled: AtomicU64,
    blocked: AtomicU64,
}

/// No activation.
const NONE: usize = usize::MAX;

type HandlerFn = dyn Fn(&DeviceUpcall<'_>) -> InterruptOutcome + Send + Sync;

/// | field | its writer |
/// |---|---|
/// | `gate` | see `gate.rs` |
/// | `taken`, `posts` | the dispatcher; the upcall takes `taken` |
/// | `home` | threads that register or wait: a hint |
/// | `storm` | the upcall |
/// | `waiters` | threads that wait |
pub(crate) struct Vector {
    key: u64,
    events: EventCounter,
    gate: VectorGate,
    handler: Box<HandlerFn>,
    /// Interrupts that were taken, and of which the handler was not told yet.
    taken: AtomicU64,
    /// The number of the upcall that was brought to an activation last.
    posts: AtomicU64,
    home: AtomicUsize,
    panicked: AtomicBool,
    storm: Mutex<StormGuard>,
    waiters: Mutex<Vec<Arc<DeviceEvent>>>,
    counts: Counts,
    affinity: AffinityControl,
}

impl fmt::Debug for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vector")
            .field("gate", &self.gate)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

impl Vector {
    pub(crate) fn new(key: u64, events: EventCounter, always: bool, handler: Box<HandlerFn>) -> Self {
        let vector = Self {
            key,
            events,
            gate: VectorGate::new(always),
            handler,
            taken: AtomicU64::new(0),
            posts: AtomicU64::new(0),
            home: AtomicUsize::new(NONE),
            panicked: AtomicBool::new(false),
            storm: Mutex::default(),
            waiters: Mutex::default(),
            counts: Counts::default(),
            affinity: AffinityControl::default(),
        };
        vector.settle_here();
        vector
    }

    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    pub(crate) fn events(&self) -> &EventCounter {
        &self.events
    }

    pub(crate) fn gate(&self) -> &VectorGate {
        &self.gate
    }

    /// Its upcalls go to the caller's activation from now on.
    pub(crate) fn settle_here(&self) {
        if let Some(number) = underpass_threads::activation() {
            // Relaxed, here and in `home`: a hint.
            self.home.store(number, Ordering::Relaxed);
        }
    }

    pub(crate) fn affinity(&self) -> &AffinityControl {
        &self.affinity
    }

    /// The activation to which its upcalls go.
    pub(crate) fn home(&self) -> Option<usize> {
        Some(self.home.load(Ordering::Relaxed)).filter(|&home| home != NONE)
    }

    /// D2, D3: takes the count. Returns whether to bring an upcall to an activation.
    pub(crate) fn take(&self) -> bool {
        // The device may have taken the count itself, or may be gone: then it is zero.
        let count = self.events.take().unwrap_or(0);
        // SYNC with `taken` swap in `upcall`, by way of the gate.
        self.taken.fetch_add(count, Ordering::Relaxed);
        // Relaxed: a statistic.
        self.counts.interrupts.fetch_add(count, Ordering::Relaxed);
        self.gate.post()
    }

    /// Numbers an upcall that is about to be brought to an activation.
    pub(crate) fn posted(&self) -> u64 {
        // Relaxed: a later look at an older number does no harm.
        self.posts.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether no activation has begun the upcall of this number.
    pub(crate) fn waits(&self, number: u64) -> bool {
        self.gate.is_posted() && self.posts.load(Ordering::Relaxed) == number
    }

    /// U1 to U4, on an activation and between two threads.
    pub(crate) fn upcall(self: &Arc<Self>) {
        if !self.gate.begin() {
            return;
        }
        self.count_upcall();
        let interrupts = self.taken.swap(0, Ordering::Relaxed);
        let upcall = DeviceUpcall { interrupts, vector: self };
        let handled = catch_unwind(AssertUnwindSafe(|| (self.handler)(&upcall)));
        match handled {
            Ok(handled) => self.guard(handled),
            Err(_) => {
                // The default hook has printed the message.
                self.panicked.store(true, Ordering::Release);
                self.gate.close();
                self.signal_waiters();
            }
        }
        act(self, self.gate.end());
    }

    /// Before the handler runs, so that a thread that it signals sees the upcall counted.
    fn count_upcall(&self) {
        // Relaxed, both: statistics.
        self.counts.upcalls.fetch_add(1, Ordering::Relaxed);
        let met = underpass_threads::activation() == self.home();
        self.counts.met.fetch_add(u64::from(met), Ordering::Relaxed);
        self.counts.near.fetch_add(u64::from(self.affinity.is_here()), Ordering::Relaxed);
    }

    /// U3: masks the vector if its upcalls are a storm.
    fn guard(&self, handled: InterruptOutcome) {
        // Relaxed: a statistic.
        self.counts.spurious.fetch_add(u64::from(handled == InterruptOutcome::Nothing), Ordering::Relaxed);
        let noted = lock(&self.storm).note(now_ns(), handled == InterruptOutcome::Handled);
        let Some(span) = noted else { return };
        self.counts.storms.fetch_add(1, Ordering::Relaxed);
        self.gate.storm();
        // Threads that wait poll from now on.
        self.signal_waiters();
        if let Ok(dispatcher) = Dispatcher::get() {
            dispatcher.calm_after(self.key, span);
        }
    }

    /// A storm has masked it for long enough. Interrupts that came meanwhile are counted by the
    /// event counter, so that the handler looks now.
    pub(crate) fn calm(self: &Arc<Self>) {
        act(self, self.gate.calm());
    }

    /// Has the handler run, and every waiting thread look, although no interrupt has come.
    pub(crate) fn force(self: &Arc<Self>) {
        act(self, self.gate.force());
        self.signal_waiters();
    }

    /// Adds a thread that is about to wait, by its event.
    pub(crate) fn enlist(&self, event: &Arc<DeviceEvent>) {
        self.with_waiters(|waiters| waiters.push(Arc::clone(event)));
    }

    /// Removes a thread that has waited.
    pub(crate) fn strike(&self, event: &Arc<DeviceEvent>) {
        self.with_waiters(|waiters| {
            if let Some(place) = waiters.iter().position(|other| Arc::ptr_eq(other, event)) {
                waiters.swap_remove(place);
            }
        });
    }

    pub(crate) fn signal_waiters(&self) {
        let waiters = self.with_waiters(|waiters| waiters.clone());
        waiters.iter().for_each(|event| event.signal());
    }

    fn with_waiters<R>(&self, what: impl FnOnce(&mut Vec<Arc<DeviceEvent>>) -> R) -> R {
        what(&mut lock(&self.waiters))
    }

    /// Whether its handler has panicked.
    pub(crate) fn has_panicked(&self) -> bool {
        // SYNC with `panicked` store in `upcall`.
        self.panicked.load(Ordering::Acquire)
    }

    /// Counts a wait.
    pub(crate) fn waited(&self, blocked: bool) {
        let count = if blocked { &self.counts.blocked } else { &self.counts.polled };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> InterruptCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (moves, unmoved) = self.affinity.moves();
        InterruptCounts {
            interrupts: of(&self.counts.interrupts),
            upcalls: of(&self.counts.upcalls),
            met: of(&self.counts.met),
            near: of(&self.counts.near),
            moves,
            unmoved,
            spurious: of(&self.counts.spurious),
            storms: of(&self.counts.storms),
            polled: of(&self.counts.polled),
            blocked: of(&self.counts.blocked),
        }
    }
}
