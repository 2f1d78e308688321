//! A home that can be interrupted.

use crate::invoke::attach::AttachError;
use crate::invoke::handlers::InvocationHandler;
use crate::invoke::layout::REQUESTS;
use crate::invoke::masked::{self, Handling};
use crate::invoke::requests::{InvocationEnd, LastReceived, ReceivedRequest, complete, receive};
use crate::invoke::section::InterruptSection;
use crate::words::AreaWords;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use underpass_os::{failpoint, fork, random};
use underpass_port::signal::Signals;
use underpass_seam::spin_hint;
use underpass_sync::{Condvar, Mutex, MutexGuard, PoisonError};
use underpass_threads::{no_preempt, spawn, yield_now};

/// How often to look whether a handler has ended before the thread gives way.
const SPINS: u32 = 1_000;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An area that is attached.
///
/// | field | written by |
/// |---|---|
/// | `words` | both sides: see `README.md` |
/// | `last` | the thread that runs a handler |
/// | `queued` | the thread that puts the area into the queue or takes it out, by exchange |
struct Area {
    words: AreaWords,
    last: Mutex<LastReceived>,
    queued: AtomicBool,
    /// The binding of its requester. `None` within the home's own process.
    binding: Option<u64>,
}

/// What interrupts and critical sections share.
pub(crate) struct InterruptedHome {
    section: InterruptSection,
    areas: Mutex<HashMap<u64, Arc<Area>>>,
    /// Areas that have rung. Each is in it once at most.
    queue: Mutex<VecDeque<Arc<Area>>>,
    /// The thread that runs a handler takes this lock, and the one that ends the home. `None`
    /// before the beginning and after the end.
    handlers: Mutex<Option<HashMap<u64, InvocationHandler>>>,
    again: Mutex<Again>,
    re_raised: Condvar,
    handled: AtomicU64,
}

/// What becomes of the interrupts of a critical section (Psyche, section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaskedInterrupts {
    /// They are taken and queued, and raised again when the last section ends. The home takes all
    /// signals at any time.
    #[default]
    Queued,
    /// They are not taken: signals wait in the lanes of their senders until the last section ends.
    /// A thread and a queue less are needed. The thread that takes this home's signals waits
    /// meanwhile.
    Held,
}

/// What the thread that re-raises is told.
#[derive(Default)]
struct Again {
    re_raise: bool,
    stopped: bool,
}

impl InterruptedHome {
    /// Without handlers, and without areas that could want one.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            section: InterruptSection::new(),
            areas: Mutex::new(HashMap::new()),
            queue: Mutex::new(VecDeque::new()),
            handlers: Mutex::new(None),
            again: Mutex::new(Again::default()),
            re_raised: Condvar::new(),
            handled: AtomicU64::new(0),
        })
    }

    pub(crate) fn handle_by(&self, handlers: HashMap<u64, InvocationHandler>) {
        *lock(&self.handlers) = Some(handlers);
    }

    /// No handler begins any more. What they own is dropped: it can be a lock of this home.
    fn end(&self) {
        lock(&self.again).stopped = true;
        self.re_raised.notify_all();
        // A handler that ends its own home runs while this lock is held.
        if masked::handling() != self.address() {
            let handlers = lock(&self.handlers).take();
            drop(handlers);
        }
    }

    pub(crate) fn attach(&self, words: AreaWords, binding: Option<u64>) -> Result<u64, AttachError> {
        // Nobody can guess it, and so ring for another's area.
        let key = random::number().map_err(|e| AttachError::Memory(e.to_string()))? as u64;
        let (last, queued) = (Mutex::new([0; REQUESTS]), AtomicBool::new(false));
        let mut areas = lock(&self.areas);
        if binding.is_some() && areas.values().any(|area| area.binding == binding) {
            return Err(AttachError::HasOne);
        }
        areas.insert(key, Arc::new(Area { words, last, queued, binding }));
        Ok(key)
    }

    /// Forgets an area of this binding.
    pub(crate) fn detach(&self, key: u64, binding: Option<u64>) {
        let mut areas = lock(&self.areas);
        if areas.get(&key).is_some_and(|area| area.binding == binding) {
            areas.remove(&key);
        }
    }

    /// A binding has ended.
    pub(crate) fn detach_all(&self, binding: u64) {
        lock(&self.areas).retain(|_, area| area.binding != Some(binding));
    }

    /// A requester has rung. `key` may be any number.
    pub(crate) fn rung(&self, key: u64, masked: MaskedInterrupts) {
        let Some(area) = lock(&self.areas).get(&key).cloned() else { return };
        failpoint!("interrupt-rung");
        match masked {
            MaskedInterrupts::Queued => self.queue(area),
            MaskedInterrupts::Held => self.serve_when_enabled(&area),
        }
    }

    /// The second variant: the interrupt waits in a queue, and its thread goes on.
    fn queue(&self, area: Arc<Area>) {
        // SYNC with the store in `serve_one`: an offer that this ring is for is seen by the
        // `receive` behind that store, or by the one that this exchange asks for.
        if !area.queued.swap(true, Ordering::AcqRel) {
            lock(&self.queue).push_back(area);
            failpoint!("interrupt-queued");
        }
        self.arrive();
    }

    /// The first variant, B1 to B4: the interrupt waits, and with it its thread.
    fn serve_when_enabled(&self, area: &Area) {
        while !self.section.begin() {
            let again = lock(&self.again);
            if again.stopped {
                return;
            }
            // The thread that ends what holds it back did so before, or finds this thread waiting.
            if self.section.holds_back() {
                drop(self.re_raised.wait(again).unwrap_or_else(PoisonError::into_inner));
            }
        }
        self.serve(area);
        if self.section.finish() {
            self.raise_again();
        }
    }

    fn arrive(&self) {
        self.section.arrive(|| self.serve_one());
    }

    /// A3. Returns whether an area had rung.
    fn serve_one(&self) -> bool {
        let Some(area) = lock(&self.queue).pop_front() else { return false };
        // Before `receive`: a ring that comes from here on puts the area into the queue again.
        // SYNC with the exchange in `rung`.
        area.queued.swap(false, Ordering::AcqRel);
        self.serve(&area);
        true
    }

    /// H1 to H5.
    fn serve(&self, area: &Area) {
        let mut handlers = lock(&self.handlers);
        // After the end, requesters are told by their bindings.
        let Some(handlers) = &mut *handlers else { return };
        if let Some(received) = receive(&area.words, &mut lock(&area.last)) {
            failpoint!("interrupt-received");
            let completion = self.handle(handlers, &received);
            failpoint!("interrupt-handled");
            complete(&area.words, &received, completion);
            failpoint!("interrupt-completed");
        }
    }

    /// H4.
    fn handle(
        &self,
        handlers: &mut HashMap<u64, InvocationHandler>,
        received: &ReceivedRequest,
    ) -> InvocationEnd {
        let Some(handler) = handlers.get_mut(&received.operation) else {
            return InvocationEnd::NoSuchOperation;
        };
        let handling = Handling::of(self.address());
        let off = no_preempt();
        // A panic stops here: the other requesters wait for their handlers, too.
        let done = catch_unwind(AssertUnwindSafe(|| handler(received.arguments)));
        drop(off);
        drop(handling);
        // Relaxed: a count.
        self.handled.fetch_add(1, Ordering::Relaxed);
        done.map_or(InvocationEnd::Panicked, InvocationEnd::Done)
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether the calling thread may begin a section: it runs no handler of another home.
    pub(crate) fn may_mask(&self) -> bool {
        let handling = masked::handling();
        handling == 0 || handling == self.address()
    }

    /// M1 and M2. In a handler of this home it waits for nobody.
    pub(crate) fn begin_section(&self) {
        let inside = masked::handling() == self.address();
        masked::enter();
        self.section.mask();
        let mut spins = 0;
        while !inside && self.section.is_running() {
            spins += 1;
            if spins < SPINS { spin_hint() } else { yield_now() }
        }
        failpoint!("interrupt-masked");
    }

    /// U1 and U2.
    pub(crate) fn end_section(&self) {
        masked::leave();
        if self.section.unmask() {
            failpoint!("interrupt-unmasked");
            self.raise_again();
        }
    }

    /// Re-raises interrupts: wakes whoever arrives for them.
    #[cold]
    fn raise_again(&self) {
        lock(&self.again).re_raise = true;
        self.re_raised.notify_all();
    }

    /// The thread that arrives for those that unmask.
    fn re_raise(&self) {
        let mut again = lock(&self.again);
        while !again.stopped {
            if again.re_raise {
                again.re_raise = false;
                drop(again);
                self.arrive();
                again = lock(&self.again);
            } else {
                again = self.re_raised.wait(again).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// A home that can be interrupted. When it is dropped, no handler begins any more, and its
/// requesters are told.
///
/// # Examples
/// See the [module](super).
pub struct InvocationHome {
    interrupted: Arc<InterruptedHome>,
    _signals: Signals,
}

impl InvocationHome {
    pub(crate) fn of(
        interrupted: Arc<InterruptedHome>,
        signals: Signals,
        while_masked: MaskedInterrupts,
    ) -> Self {
        if while_masked == MaskedInterrupts::Queued {
            let again = interrupted.clone();
            drop(spawn(move || again.re_raise()));
        }
        Self { interrupted, _signals: signals }
    }

    /// Begins a critical section, in which no handler of this home runs (Psyche, section 3.1): the
    /// interrupts of this time wait for the end of the last section, as
    /// [`MaskedInterrupts`] says. It waits for the end of one handler at most. Sections nest, and
    /// those of several threads overlap: they do not exclude each other.
    ///
    /// The thread can't [`invoke`](super::HomeInvoker::invoke) in it.
    ///
    /// Begin the section *before* taking a lock that handlers take. A thread that holds such a lock
    /// and then masks would wait for the handler, and the handler for the lock.
    ///
    /// # Panics
    /// In a handler of another home, which would wait for this one's.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// use underpass::homed::invoke::InvocationHandlers;
    ///
    /// let pair = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    /// let theirs = pair.clone();
    /// let (services, home) = InvocationHandlers::new()
    ///     .on(1, move |_| [theirs[0].load(Relaxed), theirs[1].load(Relaxed), 0, 0, 0, 0])
    ///     .start();
    /// # drop(services);
    /// let section = home.mask();
    /// pair[0].store(1, Relaxed);
    /// pair[1].store(1, Relaxed); // No handler has seen one without the other.
    /// drop(section);
    /// ```
    pub fn mask(&self) -> InvocationMask<'_> {
        assert!(self.interrupted.may_mask(), "a handler can't mask the invocations of another home");
        self.interrupted.begin_section();
        InvocationMask { home: self, _of_its_thread: PhantomData }
    }

    /// How many handlers have run. One that panicked counts.
    pub fn handled(&self) -> u64 {
        self.interrupted.handled.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for InvocationHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InvocationHome").field("handled", &self.handled()).finish_non_exhaustive()
    }
}

impl Drop for InvocationHome {
    fn drop(&mut self) {
        // In a forked child there are no threads.
        if !fork::is_forked() {
            self.interrupted.end();
        }
    }
}

/// A critical section of a home, until it is dropped, by the thread that began it.
#[must_use = "the critical section ends at once if this is dropped"]
#[derive(Debug)]
pub struct InvocationMask<'a> {
    home: &'a InvocationHome,
    _of_its_thread: PhantomData<*mut ()>,
}

impl Drop for InvocationMask<'_> {
    fn drop(&mut self) {
        self.home.interrupted.end_section();
    }
}
