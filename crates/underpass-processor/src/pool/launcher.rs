//! The launcher: one kernel thread that starts activations, and reviews how many processors this
//! domain may use. Both take locks and memory, which the monitor must not.

use crate::park::MonitorParker;
use crate::permits::{ActivationState, protocol, state};
use crate::pool::maximum;
use crate::pool::registry::MOST_ACTIVATIONS;
use crate::pool::sharing::sharing;
use crate::{Activation, Pool, metrics};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use underpass_os::clock::now_ns;

/// How long there must have been too many activations before any of them ends, in ns. Otherwise
/// handlers that block now and then would have activations started each time.
const LINGER: u64 = 1_000_000_000;

/// What the launcher is asked to do.
#[derive(Debug)]
pub(crate) struct Starts {
    /// Activations to be started.
    asked: AtomicU32,
    /// Permits in hand for activations that are being started. The taker of one has it
    /// in hand.
    permits: AtomicU32,
    /// The most activations that there may be.
    limit: AtomicUsize,
    /// How many activations have ever begun a blocking call.
    substitutes: AtomicUsize,
    /// The maximum has to be reviewed.
    review: AtomicBool,
    /// Listeners are wanted.
    listeners: AtomicBool,
    /// There are more activations than are needed while none is blocked. Written under the lock of
    /// starts.
    grown: AtomicBool,
    /// Since when there are too many activations, as far as one of them has noticed, in ns of the
    /// clock. 0 if there are not.
    surplus_since: AtomicU64,
    parker: MonitorParker,
    /// Activations without a kernel thread: the kernel had none to give, or theirs has ended. Its
    /// lock is the lock of starts and ends.
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

    /// Wakes the launcher, to do what it was asked.
    pub(crate) fn wake_launcher(&self) {
        self.parker.unpark();
    }

    /// Asks the launcher to review the maximum.
    pub(crate) fn request_review(&self) {
        // Relaxed, as `limit` and `asked`: the parker synchronizes.
        self.review.store(true, Ordering::Relaxed);
        self.wake_launcher();
    }

    /// One more activation is about to begin its first blocking call: asks for a substitute.
    pub(crate) fn request_substitute(&self) {
        self.substitutes.fetch_add(1, Ordering::Relaxed);
        self.wake_launcher();
    }

    /// How many activations there should be, so that enough can listen whenever some are in
    /// announced blocking calls. At most half of the activations that there may be are started for
    /// that. The other half is for threads that want an activation of their own.
    fn enough(&self, maximum: usize) -> usize {
        let limit = self.limit.load(Ordering::Relaxed);
        (maximum + self.substitutes.load(Ordering::Relaxed)).min(limit / 2).max(maximum)
    }

    /// Asks for listeners, unless that was done.
    pub(crate) fn want_listeners(&self) {
        // Relaxed, as above.
        if !self.listeners.swap(true, Ordering::Relaxed) {
            self.wake_launcher();
        }
    }

    /// An activation was found blocked, so others are needed in its place.
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

    /// The spare activations, under their lock. The caller must not be preempted while it holds the
    /// lock.
    fn spares(&self) -> MutexGuard<'_, Vec<&'static Activation>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for an activation for the permit that the caller has in hand. Returns `false` if there
    /// are too many; then the caller still has the permit.
    pub(crate) fn request_with_permit(&self, now: usize) -> bool {
        let possible = self.possible(now);
        if possible {
            self.put_permit();
            self.ask();
        }
        possible
    }

    /// Asks for an activation that waits for a permit when it has started. Returns `false` if there
    /// are too many.
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

    /// Leaves the permit in hand for an activation to be started.
    fn put_permit(&self) {
        // SYNC with `permits` fetch_update in `take_permit`: what was done under the permit before.
        self.permits.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes in hand a permit that was left for an activation to be started.
    pub(crate) fn take_permit(&self) -> bool {
        let less = |permits: u32| permits.checked_sub(1);
        // SYNC with `permits` fetch_add in `put_permit`.
        self.permits.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).is_ok()
    }

    /// How many permits are left for activations to be started.
    pub(crate) fn permits(&self) -> usize {
        // Relaxed: a thread that takes one compares again.
        self.permits.load(Ordering::Relaxed) as usize
    }
}

impl Pool {
    /// Starts activations until those that are not blocked in the kernel are enough to run or
    /// listen on all processors.
    pub(crate) fn fill(&'static self) {
        while self.natives() < self.starts.enough(self.own_maximum()) || protocol::too_few_able(self) {
            if self.permits.take() {
                self.starts.put_permit();
            }
            if !self.start_activation_on(None) {
                return self.release_unused_permit();
            }
        }
    }

    /// Activations that are not listeners.
    fn natives(&self) -> usize {
        let natives = |activation: &&Activation| activation.listens_on().is_none() && !activation.has_ended();
        self.registry.iter().filter(|activation| natives(activation)).count()
    }

    /// Starts the activations that were asked for.
    fn start_requested(&'static self) {
        while self.starts.expected() {
            self.start_one_requested();
            // Relaxed: the parker synchronizes. Only the launcher lowers it.
            self.starts.asked.fetch_sub(1, Ordering::Relaxed);
        }
        self.fill();
    }

    fn start_one_requested(&'static self) {
        // An activation may have gone to sleep by now.
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
        // If one can't be started, calls are served all the same, on processors of our own.
        for cpu in underpass_os::cpu::allowed().unwrap_or_default() {
            if !self.start_activation_on(Some(cpu)) {
                return;
            }
        }
    }

    /// Starts an activation, or a listener of `cpu`. An activation takes a permit that was left for
    /// it, or waits for its turn. Returns `false` if there are too many, or if the kernel gives no
    /// kernel thread.
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
            // The last thing that this kernel thread does with the activation.
            self.starts.spares().push(activation);
        });
        if !begun {
            spare.push(activation);
        } else {
            metrics().started();
            match self.registry.get(number) {
                None => self.registry.push(activation),
                // It counts from now on, as a new one does. Its kernel thread may have changed the
                // state first. That thread can't have ended again, since that takes the lock held
                // here.
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

    /// Whether one activation could end, and those that are not blocked would still be enough.
    pub(crate) fn has_surplus(&self) -> bool {
        let blocked = self.registry.iter().filter(|activation| activation.is_blocked()).count();
        self.natives() > self.starts.enough(self.own_maximum()) + blocked
    }

    /// If there are too many activations: when one of them may end, which is after there have been
    /// too many for [`LINGER`].
    #[inline]
    pub(crate) fn surplus_ends_at(&self) -> Option<u64> {
        // Relaxed, here and below: callers ask again and again.
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

    /// Ends a sleeping activation, unless it is needed. The lock of starts orders two that end at
    /// once, so that the second counts without the first.
    pub(crate) fn end(&self, activation: &Activation) -> bool {
        let _spare = self.starts.spares();
        let ended = self.has_surplus() && protocol::end_for_good(self, activation.state());
        self.note_growth();
        ended
    }

    /// The caller holds the lock of starts.
    fn note_growth(&self) {
        let grown = self.natives() > self.starts.enough(self.own_maximum());
        self.starts.grown.store(grown, Ordering::Relaxed);
    }

    /// If a permit is left for an activation that could not be started, gives it to another.
    fn release_unused_permit(&self) {
        if self.starts.take_permit() && !protocol::hand_to_sleeper(self) {
            // Not `free`: if there is work, that would ask for the next activation, which can't be
            // started either.
            protocol::release(self);
        }
    }

    /// An activation that has just been started comes to a permit: one that was left for it, or by
    /// the same steps as one that wakes.
    pub(crate) fn admit(&self, state: &ActivationState) {
        if self.starts.take_permit() && !state.give_permit(state::ASLEEP) {
            // It was given a permit, or published as waiting.
            protocol::free(self);
        }
        protocol::resume(self, state);
    }
}

/// The most activations for that maximum: others may be blocked meanwhile.
fn limit(maximum: usize) -> usize {
    (8 * maximum::cpus().max(maximum)).clamp(64, MOST_ACTIVATIONS)
}

/// What the launcher's kernel thread runs.
pub(crate) fn run(pool: &'static Pool) -> ! {
    let (mut listening, mut begun) = (false, false);
    loop {
        pool.start_requested();
        pool.start_listeners(&mut listening);
        let review = pool.starts.review.swap(false, Ordering::Relaxed);
        if review && maximum::varies() {
            pool.update_maximum();
        }
        if (review || !std::mem::replace(&mut begun, true))
            && let Some(sharing) = sharing()
        {
            sharing.review(pool);
        }
        pool.starts.parker.sleep_until_unparked(|| true);
    }
}

/// Starts a kernel thread. If it panics, the process aborts. Returns `false` if the kernel gives
/// none.
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> bool {
    let owned_name = name.to_owned();
    let work = move || {
        // Otherwise the threads that live there would never run again, and others wait for them.
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            eprintln!("underpass: {owned_name} panicked; aborting");
            std::process::abort();
        }
    };
    std::thread::Builder::new().name(name.into()).spawn(work).is_ok()
}
