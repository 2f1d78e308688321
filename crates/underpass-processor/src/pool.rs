//! The activations of a domain, and the permits in which they run.

pub(crate) mod activation;
pub(crate) mod activation_counts;
mod environment;
pub(crate) mod launcher;
pub(crate) mod maximum;
pub mod preempt;
pub(crate) mod registry;

use crate::park::MonitorParker;
use crate::permits::{Counts, Permits, fence_after_change, protocol};
use crate::{Activation, ActivationCounts, metrics};
use launcher::Starts;
use registry::{MOST_ACTIVATIONS, Registry};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use underpass_os::barrier;

/// What runs on activations, and what processors ask of it.
pub trait Upcall: Send + Sync {
    /// Runs user-level threads on this activation until it has ended in [`idle`](Activation::idle).
    /// Called on its kernel thread, when it has a processor.
    fn activate(&'static self, activation: &'static Activation);

    /// Whether threads that have not started, or migrating ones that are ready, wait anywhere: any
    /// activation may take them.
    ///
    /// Asked everywhere, even where what was interrupted may hold any lock: takes neither lock nor
    /// memory, as all that follow.
    fn unstarted(&self) -> bool;

    /// Whether this activation, if it were called now, would take some of the
    /// [`unstarted`](Self::unstarted) work.
    fn takes(&self, activation: &Activation) -> bool {
        let _ = activation;
        true
    }

    /// Whether this activation, if it were called now, would serve calls.
    fn serves(&self, activation: &Activation) -> bool {
        let _ = activation;
        true
    }

    /// Whether started threads are ready on this activation, so that it needs a processor. Asked by
    /// the monitor.
    fn ready(&self, activation: &Activation) -> bool;

    /// The monitor found that the thread that runs on `activation` blocks without having said so.
    fn found_blocking(&self, activation: &Activation);

    /// The monitor found that the thread that runs on `activation` has used up a slice while others
    /// wait. Once for each time that it runs.
    fn found_computing(&self, activation: &Activation);

    /// A thread that was [`found_blocking`](Self::found_blocking) does so no more, or says so by
    /// now.
    fn ended_blocking(&self) {}

    /// Whether what the threads above do about one that was
    /// [`found_blocking`](Self::found_blocking) is done: until then the monitor calls nobody for
    /// calls that wait.
    fn settled(&self) -> bool {
        true
    }

    /// A coarse tick of the monitor, while it ticks.
    fn tick(&self) {}
}

/// Nobody has begun a blocking call yet.
const UNUSED: u32 = 0;
/// Somebody is about to.
const USED: u32 = 1;
/// And everybody who makes work by now knows that.
const KNOWN: u32 = 2;

/// The activations of this domain.
pub struct Pool {
    pub(crate) permits: Permits,
    pub(crate) registry: Registry,
    pub(crate) upcall: &'static dyn Upcall,
    pub(crate) starts: Starts,
    /// Whether somebody has begun a blocking call: [`UNUSED`], [`USED`] or [`KNOWN`].
    brackets: AtomicU32,
    /// Listeners that run on donated processors.
    pub(crate) lent: AtomicU32,
    /// The lock of changes of the maximum.
    changes: Mutex<()>,
    /// Calls wait on the lines, and whoever runs may be blocked: the monitor is to look. It clears
    /// this.
    pub(crate) calls: AtomicBool,
}

pub(crate) static POOL: OnceLock<Pool> = OnceLock::new();
/// The monitor's.
pub(crate) static MONITOR: MonitorParker = MonitorParker::new();

impl Pool {
    /// Asks for `processors` at the most, instead of as many as this domain may use.
    ///
    /// With none at all the domain serves calls on processors that its callers donate (the paper's
    /// S = 0), and has one for threads that no call runs.
    ///
    /// Says whether that came before the start. Afterwards it changes the maximum; who runs beyond
    /// it finishes its slice.
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
            brackets: AtomicU32::new(UNUSED),
            lent: AtomicU32::new(0),
            changes: Mutex::new(()),
            calls: AtomicBool::new(false),
        }
    }

    /// Whether this domain is to serve calls on donated processors alone.
    pub fn donated_only() -> bool {
        maximum::donated_only()
    }

    /// Whether the activations were started.
    pub fn started() -> bool {
        POOL.get().is_some()
    }

    /// This domain's, if it was [`start`](Self::start)ed.
    pub fn get() -> Option<&'static Pool> {
        POOL.get()
    }

    /// Something became ready that can't run at once: wakes the monitor if it dozes. Two loads if
    /// not. After what became ready was made visible.
    #[inline]
    pub fn wake_monitor() {
        barrier::light();
        if MONITOR.dozes() {
            MONITOR.unpark();
        }
    }

    /// Processor permits: the most activations that run at once.
    pub fn maximum(&self) -> usize {
        self.permits.counts().maximum as usize
    }

    /// Permits that are taken, those of who is in a blocking call among them until somebody else
    /// wants them.
    pub fn running(&self) -> usize {
        self.permits.counts().running as usize
    }

    /// All activations.
    pub fn activations(&self) -> impl Iterator<Item = &'static Activation> {
        self.registry.iter()
    }

    /// OThreads' `ActivationRequest`: work waits that any activation may do. If a processor is free
    /// for it, wakes an activation that sleeps, or has one started.
    ///
    /// The caller has made the work visible, and then called [`barrier::light`]. A few loads if all
    /// processors run.
    #[inline]
    pub fn request(&self) {
        if self.permits.counts().free() || self.is_bracketed() {
            self.request_now();
        }
        // H2 is the caller's barrier.
        if MONITOR.dozes() {
            MONITOR.unpark();
        }
    }

    fn request_now(&self) {
        let _held = preempt::critical();
        protocol::request(self);
    }

    /// Calls have come, and whoever looks may not be enough for them: calls an activation that
    /// sleeps, if a processor is free for it.
    pub fn invite(&self) {
        if self.permits.counts().free() {
            let _held = preempt::critical();
            protocol::invite(self);
        }
    }

    /// Calls wait, and their caller says that nobody has taken them. Calls an activation that
    /// sleeps, as [`invite`](Self::invite); if no processor is free for it, has the monitor look
    /// whether those that hold them are blocked.
    pub fn invite_or_check(&self) {
        if self.permits.counts().free() {
            return self.invite();
        }
        // Relaxed: the barrier, or the parker, makes it visible. H1 to H3.
        self.calls.store(true, Ordering::Relaxed);
        Self::wake_monitor();
    }

    /// Activations that may be blocked without having said so, in calls of one user: half of all
    /// that there may be, so that the others' calls are served.
    pub fn most_blocked(&self) -> usize {
        self.starts.limit() / 2
    }

    /// Has a listener started for each CPU, if none was: to serve calls on processors that other
    /// domains donate.
    pub fn listen(&self) {
        self.starts.want_listeners();
    }

    /// Before it sleeps an activation looks for work that it would take; it sees that others do
    /// what it wouldn't.
    pub(crate) fn leave_work(&self, activation: &Activation) {
        // Who saw the permit taken that was released just now has made its work visible to us.
        fence_after_change();
        if self.upcall.unstarted() && !self.upcall.takes(activation) {
            protocol::request(self);
        }
    }

    /// Who does what at this moment.
    pub fn activation_counts(&self) -> ActivationCounts {
        ActivationCounts::take(self)
    }

    pub(crate) fn counts(&self) -> Counts {
        self.permits.counts()
    }

    #[inline]
    pub(crate) fn is_bracketed(&self) -> bool {
        // Relaxed: B0's barrier is what counts.
        self.brackets.load(Ordering::Relaxed) != UNUSED
    }

    /// B0. Who comes second while the first has its barrier still before it has one of its own.
    #[inline]
    pub(crate) fn announce_brackets(&self) {
        // SYNC with `brackets` store below: the first one's barrier.
        if self.brackets.load(Ordering::Acquire) != KNOWN {
            self.announce_first();
        }
    }

    #[cold]
    fn announce_first(&self) {
        // Relaxed: the barrier follows. Another's `KNOWN` may become `USED` again for a moment: one
        // barrier too many.
        self.brackets.store(USED, Ordering::Relaxed);
        barrier::heavy();
        metrics().entered_kernel(1);
        // SYNC with `brackets` load in `announce_brackets`: the barrier.
        self.brackets.store(KNOWN, Ordering::Release);
    }

    /// Sets the maximum anew, if it has changed.
    pub(crate) fn update_maximum(&self) {
        // P1; and nobody is preempted while it holds the lock, for which the steward waits.
        let _held = preempt::critical();
        let changing = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let maximum = maximum::wanted().min(MOST_ACTIVATIONS);
        if maximum == self.maximum() {
            return;
        }
        self.starts.set_limit(maximum);
        for _ in 0..self.permits.set_maximum(maximum as u32) {
            protocol::grant(self);
        }
        drop(changing);
        // It asks those who run beyond the maximum, and sees to work that waits.
        MONITOR.unpark();
        self.starts.wake_launcher();
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("activations", &self.activation_counts()).finish_non_exhaustive()
    }
}
