//! The activations of a domain, and the permits with which they run.
//!
//! This folder has the activation itself (`activation.rs`), the table of all activations
//! (`registry.rs`), the counts for users (`activation_counts.rs`), and the kernel thread that
//! starts activations (`launcher.rs`). It also has what the kernel says of them (`kernel_task.rs`),
//! the maximum (`maximum.rs`), preemption and its signal (`preempt.rs`), and the link to the permit
//! protocol (`environment.rs`).

pub(crate) mod activation;
pub(crate) mod activation_counts;
mod environment;
pub(crate) mod kernel_task;
pub(crate) mod launcher;
pub(crate) mod maximum;
pub(crate) mod placing;
pub mod preempt;
pub(crate) mod registry;
pub(crate) mod sharing;

use crate::park::MonitorParker;
use crate::permits::{Counts, Permits, fence_after_change, protocol};
use crate::{Activation, ActivationCounts, metrics};
use kernel_task::KernelTasks;
use launcher::Starts;
use registry::{MOST_ACTIVATIONS, Registry};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use underpass_os::barrier;

/// What processors ask of the threads that run on activations. The crate of threads implements it.
pub trait Upcall: Send + Sync {
    /// Runs user-level threads on this activation, until it has ended in
    /// [`idle`](Activation::idle). It is called on the activation's kernel thread, once that has a
    /// processor.
    fn activate(&'static self, activation: &'static Activation);

    /// Whether any activation may take work now: threads that have not started, or migrating
    /// threads that are ready.
    ///
    /// This is asked everywhere, even where the interrupted thread may hold any lock. So it takes
    /// neither lock nor memory, and neither do the other methods below.
    fn unstarted(&self) -> bool;

    /// Whether this activation, if it were woken now, would take some of the
    /// [`unstarted`](Self::unstarted) work.
    fn takes(&self, activation: &Activation) -> bool {
        let _ = activation;
        true
    }

    /// Whether this activation, if it were woken now, would serve calls.
    fn serves(&self, activation: &Activation) -> bool {
        let _ = activation;
        true
    }

    /// How much [`unstarted`](Self::unstarted) work there is: a hint.
    fn unstarted_count(&self) -> u32 {
        u32::from(self.unstarted())
    }

    /// Whether started threads are ready on this activation, so that it needs a processor. The
    /// monitor asks.
    fn ready(&self, activation: &Activation) -> bool;

    /// The monitor found that the thread which runs on `activation` has blocked without announcing
    /// it.
    fn found_blocking(&self, activation: &Activation);

    /// The monitor found that the thread which runs on `activation` has used up a slice while
    /// others wait. This comes once for each run of the thread.
    fn found_computing(&self, activation: &Activation);

    /// A thread that was [`found_blocking`](Self::found_blocking) runs again, or has announced a
    /// blocking call by now.
    fn ended_blocking(&self) {}

    /// Whether the layers above have handled each thread that was
    /// [`found_blocking`](Self::found_blocking). Until then the monitor wakes no activation for
    /// calls that wait.
    fn settled(&self) -> bool {
        true
    }

    /// A coarse tick of the monitor, while it ticks.
    fn tick(&self) {}
}

/// Nobody has begun a blocking call yet.
const UNUSED: u32 = 0;
/// Some activation is about to begin the first one.
const USED: u32 = 1;
/// One has begun, and each thread that makes work knows it by now.
const KNOWN: u32 = 2;

/// The activations of this domain.
pub struct Pool {
    pub(crate) permits: Permits,
    pub(crate) registry: Registry,
    pub(crate) upcall: &'static dyn Upcall,
    pub(crate) starts: Starts,
    /// Whether an activation has begun a blocking call: [`UNUSED`], [`USED`] or [`KNOWN`].
    blocking_calls: AtomicU32,
    /// How many listeners run on donated processors.
    pub(crate) lent: AtomicU32,
    /// For a thread that ends an excess.
    kernel_tasks: KernelTasks,
    /// Held while the maximum changes.
    changes: Mutex<()>,
    /// Calls wait on the lines, and all activations that run may be blocked, so the monitor has to
    /// check. The monitor clears it.
    pub(crate) calls: AtomicBool,
}

pub(crate) static POOL: OnceLock<Pool> = OnceLock::new();
/// Where the monitor sleeps.
pub(crate) static MONITOR: MonitorParker = MonitorParker::new();

impl Pool {
    /// Sets the most processors that this domain uses, instead of as many as it may use.
    ///
    /// With 0 the domain serves calls on processors that its callers donate (the paper's S = 0). It
    /// still has one processor for threads that no call runs.
    ///
    /// Returns whether this came before the start. After the start it changes the maximum; an
    /// activation that runs beyond it finishes its slice.
    pub fn configure(processors: u32) -> bool {
        maximum::configure(processors);
        let pool = POOL.get();
        pool.inspect(|pool| pool.update_maximum());
        pool.is_none()
    }

    pub(crate) fn new(upcall: &'static dyn Upcall) -> Self {
        let maximum = maximum::wanted().min(MOST_ACTIVATIONS);
        Self {
            permits: Permits::new(maximum as u32),
            registry: Registry::new(),
            upcall,
            starts: Starts::new(maximum),
            blocking_calls: AtomicU32::new(UNUSED),
            lent: AtomicU32::new(0),
            kernel_tasks: KernelTasks::new(),
            changes: Mutex::new(()),
            calls: AtomicBool::new(false),
        }
    }

    /// Whether this domain serves calls on donated processors only.
    pub fn donated_only() -> bool {
        maximum::donated_only()
    }

    /// Whether the activations were started.
    pub fn started() -> bool {
        POOL.get().is_some()
    }

    /// The pool of this domain, if it was [`start`](Self::start)ed.
    pub fn get() -> Option<&'static Pool> {
        POOL.get()
    }

    /// Wakes the monitor if it sleeps, because something became ready that can't run at once. The
    /// caller has made that visible before. Two loads if the monitor is awake.
    #[inline]
    pub fn wake_monitor() {
        barrier::light();
        if MONITOR.dozes() {
            MONITOR.unpark();
        }
    }

    /// The permits in all: the most activations that run at once.
    pub fn maximum(&self) -> usize {
        self.permits.counts().maximum as usize
    }

    /// The permits that are taken. This includes those of activations in a blocking call, until
    /// another activation takes them.
    pub fn running(&self) -> usize {
        self.permits.counts().running as usize
    }

    /// Activations that wait for a permit.
    pub fn waiting(&self) -> usize {
        self.permits.counts().waiting as usize
    }

    /// Whether one of this domain's own processors is idle: no activation runs on it. An activation
    /// that polls for calls runs. If it finds none, it sleeps soon.
    ///
    /// A domain that serves calls on donated processors only has none for them.
    #[inline]
    pub fn has_idle_processor(&self) -> bool {
        self.permits.counts().free() && !Self::donated_only()
    }

    /// All activations.
    pub fn activations(&self) -> impl Iterator<Item = &'static Activation> {
        self.registry.iter()
    }

    /// OThreads' `ActivationRequest`: there is work that any activation may do. If a processor is
    /// free for it, wakes a sleeping activation, or has one started.
    ///
    /// The caller has made the work visible, and then called [`barrier::light`]. This costs a few
    /// loads if all processors run.
    #[inline]
    pub fn request(&self) {
        let counts = self.permits.counts();
        if counts.free() || self.has_blocking_calls() {
            self.request_now();
        }
        if counts.is_short() {
            self.want_more();
        }
        // The caller's barrier is H2.
        if MONITOR.dozes() {
            MONITOR.unpark();
        }
    }

    fn request_now(&self) {
        let _held = preempt::critical();
        protocol::request(self);
    }

    /// Calls have come, and the activation that polls the lines may not be enough for them. If a
    /// processor is free, wakes a sleeping activation.
    pub fn invite(&self) {
        if self.permits.counts().free() {
            let _held = preempt::critical();
            protocol::invite(self);
        }
    }

    /// Calls wait, and their caller reports that no activation has taken them. If a processor is
    /// free, wakes a sleeping activation, as [`invite`](Self::invite) does. Otherwise has the
    /// monitor check whether the activations that hold the processors are blocked.
    pub fn invite_or_check(&self) {
        if self.permits.counts().free() {
            return self.invite();
        }
        // Relaxed: the barrier, or the monitor's parker, makes it visible. H1 to H3.
        self.calls.store(true, Ordering::Relaxed);
        Self::wake_monitor();
        if self.counts().is_short() {
            self.want_more();
        }
    }

    /// Calls keep coming over donated processors. If a processor is free, wakes a sleeping
    /// activation, which then polls for them. A domain that shares processors asks for one, if no
    /// other domain wants it: otherwise its callers would donate theirs for each call.
    pub fn invite_or_want(&self) {
        let counts = self.counts();
        if counts.free() {
            self.invite();
        } else if counts.is_short() && !sharing::sharing().is_some_and(|sharing| sharing.is_wanted()) {
            // Relaxed: as in `invite_or_check`.
            self.calls.store(true, Ordering::Relaxed);
            Self::wake_monitor();
            self.want_more();
        }
    }

    /// How many activations may be blocked unannounced in calls of one user. It is half of all that
    /// there may be, so that calls of other users are served.
    pub fn most_blocked(&self) -> usize {
        self.starts.limit() / 2
    }

    /// Has a listener started for each CPU, unless that was done. Listeners serve calls on
    /// processors that other domains donate.
    pub fn listen(&self) {
        self.starts.want_listeners();
    }

    /// Before `activation` sleeps: hands work that waits, and that it would not take, to others.
    /// The work that it would take is its own to look for.
    pub(crate) fn leave_work(&self, activation: &Activation) {
        // A thread that saw the permit taken which was released just now has made its work visible
        // to us.
        fence_after_change();
        if self.upcall.unstarted() && !self.upcall.takes(activation) {
            protocol::request(self);
        }
    }

    /// How many activations are in each state now.
    pub fn activation_counts(&self) -> ActivationCounts {
        ActivationCounts::take(self)
    }

    pub(crate) fn counts(&self) -> Counts {
        self.permits.counts()
    }

    #[inline]
    pub(crate) fn has_blocking_calls(&self) -> bool {
        // Relaxed: the barrier of B0 orders this.
        self.blocking_calls.load(Ordering::Relaxed) != UNUSED
    }

    /// B0. A second caller that arrives before the first one's barrier has ended issues its own.
    #[inline]
    pub(crate) fn announce_blocking_calls(&self) {
        // SYNC with `blocking_calls` store in `announce_first`: the first one's barrier.
        if self.blocking_calls.load(Ordering::Acquire) != KNOWN {
            self.announce_first();
        }
    }

    #[cold]
    fn announce_first(&self) {
        // Relaxed: the barrier follows. This may set another caller's `KNOWN` back to `USED` for a
        // moment, which costs one more barrier.
        self.blocking_calls.store(USED, Ordering::Relaxed);
        barrier::heavy();
        metrics().entered_kernel(1);
        // SYNC with `blocking_calls` load in `announce_blocking_calls`: the barrier.
        self.blocking_calls.store(KNOWN, Ordering::Release);
    }

    /// Recomputes the maximum, and applies it if it has changed.
    pub(crate) fn update_maximum(&self) {
        // P1. Besides, the launcher waits for the lock below, so its holder must not be preempted.
        let _held = preempt::critical();
        let changing = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let maximum = maximum::wanted().min(MOST_ACTIVATIONS);
        if maximum == self.own_maximum() {
            return;
        }
        self.starts.set_limit(maximum);
        for _ in 0..self.permits.set_maximum(maximum as u32) {
            protocol::grant(self);
        }
        drop(changing);
        // The monitor asks activations beyond the maximum to give way, and looks for work that
        // waits.
        MONITOR.unpark();
        self.starts.wake_launcher();
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("activations", &self.activation_counts()).finish_non_exhaustive()
    }
}
