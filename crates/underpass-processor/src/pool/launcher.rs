//! The steward: one kernel thread that does what takes locks and memory, so that the monitor
//! needn't: it starts activations, and looks what processors this domain may use.

use crate::park::MonitorParker;
use crate::permits::{ActivationState, protocol, state};
use crate::pool::maximum;
use crate::pool::registry::MOST_ACTIVATIONS;
use crate::{Activation, Pool, metrics};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use underpass_os::clock::now_ns;

/// For how long there are too many activations before any of them ends, in ns: handlers that block
/// now and then shall not have others started each time.
const LINGER: u64 = 1_000_000_000;

/// What the steward is asked to do.
#[derive(Debug)]
pub(crate) struct Starts {
    /// Activations to be started.
    asked: AtomicU32,
    /// Permits in hand for activations that are being started: whoever takes one from here has it in
    /// hand.
    permits: AtomicU32,
    /// The most activations that there may be.
    limit: AtomicUsize,
    /// Activations that go into the kernel now and then.
    substitutes: AtomicUsize,
    /// The maximum is to be looked at.
    review: AtomicBool,
    /// Listeners are wanted.
    listeners: AtomicBool,
    /// There are more activations than are needed while none is blocked. Under the lock of starts.
    grown: AtomicBool,
    /// Since when there are too many, as far as somebody has looked, in ns of the clock; or 0.
    surplus_since: AtomicU64,
    parker: MonitorParker,
    /// The lock of starts and of ends, and activations without a kernel thread: none could be had,
    /// or it has ended.
    spare: Mutex<Vec<&'static Activation>>,
}

impl Starts {
    pub(crate) fn new(maximum: usize) -> Self {
        Self {
            asked: AtomicU32::new(0),
            permits: AtomicU32::new(0),
            limit: AtomicUsize::new(limit(maximum)),
            substitutes: AtomicUsize::new(0),
            review: AtomicBool::new(false),
            listeners: AtomicBool::new(false),
            grown: AtomicBool::new(false),
            surplus_since: AtomicU64::new(0),
            parker: MonitorParker::new(),
            spare: Mutex::default(),
        }
    }

    /// The steward is to look at what it was asked.
    pub(crate) fn wake_launcher(&self) {
        self.parker.unpark();
    }

    /// The steward is to look at the maximum.
    pub(crate) fn request_review(&self) {
        // Relaxed, as `limit` and `asked`: the parker synchronizes.
        self.review.store(true, Ordering::Relaxed);
        self.wake_launcher();
    }

    /// There is one more activation that goes into the kernel now and then.
    pub(crate) fn request_substitute(&self) {
        self.substitutes.fetch_add(1, Ordering::Relaxed);
        self.wake_launcher();
    }

    /// How many activations there should be, so that whenever some are in announced blocking calls
    /// enough others can listen. Half of those that there may be are left to threads that want
    /// their own.
    fn enough(&self, maximum: usize) -> usize {
        let limit = self.limit.load(Ordering::Relaxed);
        (maximum + self.substitutes.load(Ordering::Relaxed)).min(limit / 2).max(maximum)
    }

    /// Listeners are wanted. Says whether that is news.
    pub(crate) fn want_listeners(&self) {
        // Relaxed, as above.
        if !self.listeners.swap(true, Ordering::Relaxed) {
            self.wake_launcher();
        }
    }

    /// One was found blocked: others are needed in its place.
    pub(crate) fn began_blocking(&self) {
        self.surplus_since.store(0, Ordering::Relaxed);
    }

    pub(crate) fn set_limit(&self, maximum: usize) {
        self.limit.store(limit(maximum), Ordering::Relaxed);
    }

    /// The most activations that there may be.
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Whoever holds it is not preempted.
    fn spares(&self) -> MutexGuard<'_, Vec<&'static Activation>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for an activation for the permit that the caller has in hand; `false` if there are too
    /// many: then it has it still.
    pub(crate) fn request_with_permit(&self, now: usize) -> bool {
        let possible = self.possible(now);
        if possible {
            self.put_permit();
            self.ask();
        }
        possible
    }

    /// Asks for an activation that gets its permit when it is its turn; `false` if there are too
    /// many.
    pub(crate) fn request(&self, now: usize) -> bool {
        let possible = self.possible(now);
        if possible {
            self.ask();
        }
        possible
    }

    /// Whether any activation is yet to be started.
    pub(crate) fn expected(&self) -> bool {
        self.asked.load(Ordering::Relaxed) > 0
    }

    fn possible(&self, now: usize) -> bool {
        now + (self.asked.load(Ordering::Relaxed) as usize) < self.limit.load(Ordering::Relaxed)
    }

    fn ask(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.wake_launcher();
    }

    /// Puts the permit in hand there for who is started.
    fn put_permit(&self) {
        // SYNC with `permits` fetch_update in `take_permit`: what was done under the permit before.
        self.permits.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes a permit that was put there in hand.
    pub(crate) fn take_permit(&self) -> bool {
        let less = |permits: u32| permits.checked_sub(1);
        // SYNC with `permits` fetch_add in `put_permit`.
        self.permits.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).is_ok()
    }

    /// How many permits lie there.
    pub(crate) fn permits(&self) -> usize {
        // Relaxed: who takes one looks again.
        self.permits.load(Ordering::Relaxed) as usize
    }
}

impl Pool {
    /// Starts activations as long as those that aren't blocked in the kernel are too few to run or
    /// listen on all processors.
    pub(crate) fn fill(&'static self) {
        while self.natives() < self.starts.enough(self.maximum()) || protocol::too_few_able(self) {
            if self.permits.take() {
                self.starts.put_permit();
            }
            if !self.start_activation_on(None) {
                return self.release_unused_permit();
            }
        }
    }

    /// Activations that are no listeners.
    fn natives(&self) -> usize {
        let natives = |activation: &&Activation| activation.listens_on().is_none() && !activation.has_ended();
        self.registry.iter().filter(|activation| natives(activation)).count()
    }

    /// Starts those that were asked for.
    fn start_requested(&'static self) {
        while self.starts.expected() {
            self.start_one_requested();
            // Relaxed: the parker synchronizes. Only the steward lowers it.
            self.starts.asked.fetch_sub(1, Ordering::Relaxed);
        }
        self.fill();
    }

    fn start_one_requested(&'static self) {
        // By now somebody may sleep.
        if self.starts.take_permit() {
            if protocol::hand_to_sleeper(self) {
                return;
            }
            self.starts.put_permit();
        }
        if !self.start_activation_on(None) {
            self.release_unused_permit();
        }
    }

    /// Starts a listener for each CPU that this kernel thread may use, once.
    fn start_listeners(&'static self, begun: &mut bool) {
        if !self.starts.listeners.load(Ordering::Relaxed) || std::mem::replace(begun, true) {
            return;
        }
        // Without them calls are served all the same, on processors of our own.
        for cpu in underpass_os::cpu::allowed().unwrap_or_default() {
            if !self.start_activation_on(Some(cpu)) {
                return;
            }
        }
    }

    /// Starts an activation, which takes a permit that lies there, or waits for its turn; or a
    /// listener of `cpu`. `false` if there are too many, or the kernel gives no kernel thread.
    fn start_activation_on(&'static self, cpu: Option<usize>) -> bool {
        let mut spare = self.starts.spares();
        if self.living() >= self.starts.limit() {
            return false;
        }
        let kept = spare.iter().position(|spare| spare.listens_on() == cpu).map(|at| spare.swap_remove(at));
        let activation = kept.unwrap_or_else(|| Activation::leak(self.registry.len(), cpu, self));
        let (number, upcall) = (activation.number(), self.upcall);
        let name = cpu.map_or_else(|| format!("activation-{number}"), |cpu| format!("listener-{cpu}"));
        let begun = start(&name, move || {
            activation.begin();
            upcall.activate(activation);
            // The last that this kernel thread does with it.
            self.starts.spares().push(activation);
        });
        if !begun {
            spare.push(activation);
        } else {
            metrics().started();
            match self.registry.get(number) {
                None => self.registry.push(activation),
                // It counts from now on, as a new one does. Its kernel thread may have come here
                // first; it can't have ended again, for that takes this lock.
                Some(_) => drop(activation.state().advance(state::ENDED, state::ASLEEP)),
            }
            self.note_growth();
        }
        begun
    }

    /// Activations that have not ended.
    pub(crate) fn living(&self) -> usize {
        self.registry.iter().filter(|activation| !activation.has_ended()).count()
    }

    /// Whether an activation could end, and those that aren't blocked would be enough still.
    pub(crate) fn has_surplus(&self) -> bool {
        let blocked = self.registry.iter().filter(|activation| activation.is_blocked()).count();
        self.natives() > self.starts.enough(self.maximum()) + blocked
    }

    /// When activations that are too many may end, if there are any: when there have been for
    /// [`LINGER`].
    #[inline]
    pub(crate) fn surplus_ends_at(&self) -> Option<u64> {
        // Relaxed, here and below: whoever asks asks again.
        if self.starts.grown.load(Ordering::Relaxed) { self.surplus_ends() } else { None }
    }

    #[cold]
    fn surplus_ends(&self) -> Option<u64> {
        let since = &self.starts.surplus_since;
        if !self.has_surplus() {
            since.store(0, Ordering::Relaxed);
            return None;
        }
        let now = now_ns();
        let begun =
            since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).unwrap_or_else(|at| at);
        Some(if begun == 0 { now } else { begun } + LINGER)
    }

    /// Ends an activation that sleeps, unless it is needed. Under the lock of starts: of two only
    /// one is the last that is too many.
    pub(crate) fn end(&self, activation: &Activation) -> bool {
        let _spare = self.starts.spares();
        let ended = self.has_surplus() && protocol::end_for_good(self, activation.state());
        self.note_growth();
        ended
    }

    /// Under the lock of starts.
    fn note_growth(&self) {
        let grown = self.natives() > self.starts.enough(self.maximum());
        self.starts.grown.store(grown, Ordering::Relaxed);
    }

    /// The permit of one that could not be started, if nobody has taken it, is given to others.
    fn release_unused_permit(&self) {
        if self.starts.take_permit() && !protocol::hand_to_sleeper(self) {
            // Not `free`: for work it would ask for the next that can't be started.
            protocol::release(self);
        }
    }

    /// One that has just been started comes to a permit: one that lies there for it, else as one that
    /// wakes.
    pub(crate) fn admit(&self, state: &ActivationState) {
        if self.starts.take_permit() && !state.give_permit(state::ASLEEP) {
            // It was handed one, or called up.
            protocol::free(self);
        }
        protocol::resume(self, state);
    }
}

/// The most activations for that maximum: others may be blocked meanwhile.
fn limit(maximum: usize) -> usize {
    (8 * maximum::cpus().max(maximum)).clamp(64, MOST_ACTIVATIONS)
}

/// The steward's life.
pub(crate) fn run(pool: &'static Pool) -> ! {
    let mut listening = false;
    loop {
        pool.start_requested();
        pool.start_listeners(&mut listening);
        if pool.starts.review.swap(false, Ordering::Relaxed) {
            pool.update_maximum();
        }
        pool.starts.parker.sleep_until_unparked(|| true);
    }
}

/// Starts a kernel thread, which takes the process with it if it panics; `false` if the kernel
/// gives none.
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> bool {
    let owned_name = name.to_owned();
    let work = move || {
        // Threads that live there would never run again, and others wait for them.
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            eprintln!("underpass: {owned_name} panicked; aborting");
            std::process::abort();
        }
    };
    std::thread::Builder::new().name(name.into()).spawn(work).is_ok()
}
