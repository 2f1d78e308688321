//! Receiving signals: a handler for each kind.

use crate::arrival::{LaneEnded, SenderId};
use crate::open::PortOpen;
use crate::owner::{Opener, PortCore, Taken};
use crate::wait_until::WaitUntil;
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use underpass_channel::{COUNTS, LaneSizes, WhenFull};
use underpass_os::{failpoint, fork};
use underpass_rpc::Service;
use underpass_sync::Semaphore;
use underpass_threads::{no_preempt, spawn};
use underpass_wire::from_bytes;

/// What a sender names instead of a type's hash: its two words are signals, and no messages.
pub(crate) const SIGNALS: u64 = 0x5349_474e_414c_5331;

/// Bytes of a signal.
const BYTES: usize = 16;

/// A signal that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskSignal {
    /// Its kind.
    pub kind: u64,
    /// Its datum.
    pub datum: u64,
    /// Its sender.
    pub from: SenderId,
}

type OnSignal = Box<dyn FnMut(TaskSignal) + Send>;
type OnCount = Box<dyn FnMut(SenderId, u64) + Send>;
type OnEnd = Box<dyn FnMut(LaneEnded) + Send>;

/// The handlers of a domain's signals, before it receives any.
///
/// # Examples
/// See the [module](super).
#[must_use = "no signal is received before `start`"]
pub struct SignalHandlers {
    queued: usize,
    on: HashMap<u64, OnSignal>,
    on_count: HashMap<usize, OnCount>,
    on_end: Option<OnEnd>,
}

impl Default for SignalHandlers {
    fn default() -> Self {
        Self::new()
    }
}

impl SignalHandlers {
    /// No handlers, and 256 credits for each sender.
    pub fn new() -> Self {
        Self { queued: 256, on: HashMap::new(), on_count: HashMap::new(), on_end: None }
    }

    /// How many signals of queued kinds each sender may have under way. The default is 256.
    ///
    /// # Panics
    /// If it is 0, or more than 1,048,576.
    pub fn credits(mut self, credits: usize) -> Self {
        assert!((1..=1 << 20).contains(&credits), "a sender has 1 to 1,048,576 credits, and not {credits}");
        self.queued = credits;
        self
    }

    /// Handles the signals of the queued kind `kind`.
    pub fn on(mut self, kind: u64, handler: impl FnMut(TaskSignal) + Send + 'static) -> Self {
        self.on.insert(kind, Box::new(handler));
        self
    }

    /// Handles the coalescing kind `kind`, 0 to 63: the handler gets the sender, and by how much
    /// that sender's count has grown since it was last told.
    ///
    /// # Panics
    /// If there is no such kind.
    pub fn on_count(mut self, kind: usize, handler: impl FnMut(SenderId, u64) + Send + 'static) -> Self {
        assert!(kind < COUNTS, "coalescing kinds are numbered from 0 to {}, and {kind} is none", COUNTS - 1);
        self.on_count.insert(kind, Box::new(handler));
        self
    }

    /// Makes the coalescing kind `kind` release permits of `semaphore`: senders in other domains
    /// release by [`SignalSender::count`](super::SignalSender::count), and threads of this domain
    /// acquire. So threads of several domains coordinate by one semaphore.
    ///
    /// A sender can release at most 2³² - 1 permits between two looks of the handler. What is more
    /// is lost.
    ///
    /// # Panics
    /// If there is no such kind.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use underpass::port::signal::SignalHandlers;
    /// use underpass::sync::Semaphore;
    ///
    /// let jobs = Arc::new(Semaphore::new(0));
    /// let (service, signals) = SignalHandlers::new().releases(0, &jobs).start();
    /// // The service is exported, and `jobs.acquire()` waits for a job.
    /// # drop((service, signals));
    /// ```
    pub fn releases(self, kind: usize, semaphore: &Arc<Semaphore>) -> Self {
        let semaphore = semaphore.clone();
        self.on_count(kind, move |_, more| {
            let most = usize::MAX - semaphore.available().min(usize::MAX - u32::MAX as usize);
            semaphore.release((more.min(u32::MAX.into()) as usize).min(most));
        })
    }

    /// Handles the ends of senders: all signals of a sender come before its end.
    pub fn on_end(mut self, handler: impl FnMut(LaneEnded) + Send + 'static) -> Self {
        self.on_end = Some(Box::new(handler));
        self
    }

    /// Begins to receive. The service is to be exported
    /// ([`Server::export`](underpass_rpc::Server::export)); its options say who may signal.
    pub fn start(self) -> (Service, Signals) {
        let Ok(sizes) = LaneSizes::new(self.queued, BYTES, WhenFull::Refuse) else {
            unreachable!("`credits` has checked the number")
        };
        let port = Arc::new(PortCore::new(sizes, SIGNALS, 256 << 20).with_counts());
        let shared = Arc::new(Shared::default());
        let signals = Signals { port: port.clone(), shared: shared.clone() };
        let service = Opener::of_signals(&port).serve();
        drop(spawn(move || self.run(&port, &shared)));
        (service, signals)
    }

    /// Runs handlers until no signal can come any more.
    fn run(mut self, port: &PortCore, shared: &Shared) {
        let mut bytes = Vec::new();
        loop {
            let mut lanes = port.lanes();
            if shared.is_stopped() {
                drop(lanes);
                return port.drop_receiver();
            }
            let Some(taken) = lanes.take(&mut bytes) else {
                if lanes.is_over() {
                    return;
                }
                let waiting = port.waiters.enter();
                let has_something = lanes.announce_wait();
                failpoint!("signal-waits");
                drop(lanes);
                if !has_something && port.waiters.wait(WaitUntil::Endless).is_err() {
                    return port.drop_receiver();
                }
                drop(waiting);
                continue;
            };
            failpoint!("signal-taken");
            drop(lanes);
            self.handle(port, taken, &bytes, shared);
            failpoint!("signal-handled");
        }
    }

    fn handle(&mut self, port: &PortCore, taken: Taken, bytes: &[u8], shared: &Shared) {
        match taken {
            Taken::Message(from, _, room) => {
                room.inspect(|lane| port.ring_for_room(lane));
                match from_bytes(bytes) {
                    Ok((kind, datum)) => {
                        let handler = self.on.get_mut(&kind);
                        shared.runs(handler.map(|on| || on(TaskSignal { kind, datum, from })));
                    }
                    Err(_) => {
                        let ended = port.end(from);
                        shared.runs(self.on_end.as_mut().map(|on| || on(ended)));
                    }
                }
            }
            Taken::Counts(from, counts) => {
                for (kind, more) in counts {
                    shared.runs(self.on_count.get_mut(&kind).map(|on| || on(from, more)));
                }
            }
            Taken::Ended(ended, slot) => {
                drop(slot);
                shared.runs(self.on_end.as_mut().map(|on| || on(ended)));
            }
        }
    }
}

impl fmt::Debug for SignalHandlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignalHandlers")
            .field("kinds", &self.on.len())
            .field("coalescing", &self.on_count.len())
            .finish_non_exhaustive()
    }
}

/// What the thread of the handlers shares with [`Signals`].
#[derive(Debug, Default)]
struct Shared {
    stopped: AtomicBool,
    handled: AtomicU64,
    panicked: AtomicU64,
    unhandled: AtomicU64,
}

impl Shared {
    fn is_stopped(&self) -> bool {
        // Relaxed: the port's lock orders it, since a stop rings afterwards.
        self.stopped.load(Ordering::Relaxed)
    }

    /// Runs a handler with preemption off, if there is one.
    fn runs(&self, handler: Option<impl FnOnce()>) {
        // Relaxed: counts.
        let Some(handler) = handler else {
            self.unhandled.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let off = no_preempt();
        // A panic stops here: the other kinds have handlers, too.
        let panicked = catch_unwind(AssertUnwindSafe(handler)).is_err();
        drop(off);
        self.handled.fetch_add(1, Ordering::Relaxed);
        self.panicked.fetch_add(u64::from(panicked), Ordering::Relaxed);
    }
}

/// A domain's signals, as they are received. When it is dropped, no handler begins any more, and
/// the senders are told.
#[derive(Debug)]
pub struct Signals {
    port: Arc<PortCore>,
    shared: Arc<Shared>,
}

impl Signals {
    /// How many handlers have run. A handler that panicked counts.
    pub fn handled(&self) -> u64 {
        self.shared.handled.load(Ordering::Relaxed)
    }

    /// How many handlers have panicked.
    pub fn panicked(&self) -> u64 {
        self.shared.panicked.load(Ordering::Relaxed)
    }

    /// How many signals, counts and ends came for which there is no handler.
    pub fn unhandled(&self) -> u64 {
        self.shared.unhandled.load(Ordering::Relaxed)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        if fork::is_forked() {
            return;
        }
        let lanes = self.port.lanes();
        self.shared.stopped.store(true, Ordering::Relaxed);
        drop(lanes);
        self.port.waiters.ring();
    }
}
