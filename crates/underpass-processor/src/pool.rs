//! The activations of a domain, and the slots in which they run.

use crate::bell::Bell;
use crate::monitor::Monitor;
use crate::roster::{MOST_ACTIVATIONS, Roster};
use crate::seat::{Seat, state};
use crate::slots::{Counts, Slots};
use crate::turns::{self, World};
use crate::{Activation, Census, maximum, preempt, tally};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use underpass_os::barrier;
use underpass_os::futex::{self, Scope, Watched};

/// What runs on activations, and what processors ask of it.
pub trait Upcall: Send + Sync {
    /// Runs user-level threads on this activation for ever. Called on its kernel thread, when it has a processor.
    fn activate(&'static self, activation: &'static Activation) -> !;

    /// Whether threads that have not started, or migrating ones that are ready, wait anywhere: any activation may take them.
    /// Takes no lock: it is asked in all places.
    fn unstarted(&self) -> bool;

    /// Whether started threads are ready on this activation, so that it needs a processor. Asked by the monitor.
    fn ready(&self, activation: &Activation) -> bool;

    /// The monitor found that the thread that runs on `activation` blocks without having said so.
    fn found_blocking(&self, activation: &Activation);

    /// The monitor found that the thread that runs on `activation` has used up a slice while others wait. Once for each time that it runs.
    fn found_computing(&self, activation: &Activation);

    /// A coarse tick of the monitor, while it ticks.
    fn tick(&self) {}
}

/// The activations of this domain.
pub struct Pool {
    slots: Slots,
    roster: Roster,
    upcall: &'static dyn Upcall,
    /// The most activations that there may be.
    limit: AtomicUsize,
    /// Slots in hand for activations that the monitor is to start.
    unborn: AtomicU32,
    /// Somebody has begun a blocking call.
    bracketed: AtomicBool,
    /// The lock of births, and an activation whose kernel thread could not be had.
    births: Mutex<Option<&'static Activation>>,
    /// The lock of changes of the maximum.
    changes: Mutex<()>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("census", &self.census()).finish_non_exhaustive()
    }
}

static POOL: OnceLock<Pool> = OnceLock::new();
pub(crate) static BELL: Bell = Bell::new();

impl Pool {
    /// Asks for `processors` at the most instead of as many as this domain may use; for the latter again if it is 0.
    ///
    /// Says whether that came before the start. Afterwards it changes the maximum; who runs beyond it finishes its slice.
    pub fn configure(processors: u32) -> bool {
        maximum::configure(processors);
        match POOL.get() {
            Some(pool) => pool.update_maximum(),
            None => return true,
        }
        false
    }

    /// This domain's; starts the activations and the monitor if they aren't yet.
    ///
    /// The maximum is [`configure`](Self::configure)d, else `$UNDERPASS_PROCESSORS`, else that of the CPUs in the affinity of
    /// the kernel thread that comes here first, or what the control groups grant if that is less; the last two are read again about once
    /// a second while there is more to do than processors.
    ///
    /// # Panics
    /// If the kernel gives no kernel thread.
    pub fn start(upcall: &'static dyn Upcall) -> &'static Pool {
        let mut new = false;
        let pool = POOL.get_or_init(|| {
            new = true;
            Self::new(upcall)
        });
        if new {
            const NONE: &str = "the kernel gives no kernel thread for an activation; see `ulimit -u`";
            while pool.roster.len() < pool.maximum() && pool.slots.take() {
                if pool.give_birth(state::RUNNING).is_none() {
                    assert!(pool.roster.len() > 0, "{NONE}");
                    turns::release(pool);
                    break;
                }
            }
            let monitor = std::thread::Builder::new().name("underpass-monitor".into());
            monitor.spawn(|| aborting("the monitor", || Monitor::new(pool, upcall).run())).expect(NONE);
        }
        pool
    }

    fn new(upcall: &'static dyn Upcall) -> Self {
        let maximum = maximum::wanted().min(MOST_ACTIVATIONS);
        Self {
            slots: Slots::new(maximum as u32),
            roster: Roster::new(),
            upcall,
            limit: AtomicUsize::new(limit(maximum)),
            unborn: AtomicU32::new(0),
            bracketed: AtomicBool::new(false),
            births: Mutex::new(None),
            changes: Mutex::new(()),
        }
    }

    /// Whether the activations were started.
    pub fn started() -> bool {
        POOL.get().is_some()
    }

    /// Something became ready that can't run at once: wakes the monitor if it dozes. One load if not. After what became ready was made visible.
    #[inline]
    pub fn heed() {
        barrier::light();
        if BELL.dozes() {
            BELL.ring();
        }
    }

    /// Processor slots: the most activations that run at once.
    pub fn maximum(&self) -> usize {
        self.slots.counts().maximum as usize
    }

    /// Slots that are taken, those of who is in a blocking call among them until somebody else wants them.
    pub fn running(&self) -> usize {
        self.slots.counts().running as usize
    }

    /// All activations.
    pub fn activations(&self) -> impl Iterator<Item = &'static Activation> {
        self.roster.iter()
    }

    /// OThreads' `ActivationRequest`: work waits that any activation may do. If a processor is free for it, wakes an activation that sleeps, or has one
    /// started.
    ///
    /// The caller has made the work visible, and then called [`barrier::light`]. A few loads if all processors run.
    #[inline]
    pub fn request(&self) {
        if self.slots.counts().free() || self.is_bracketed() {
            self.request_now();
        }
    }

    fn request_now(&self) {
        let _held = preempt::critical();
        turns::request(self);
    }

    /// Who does what at this moment.
    pub fn census(&self) -> Census {
        Census::take(self)
    }

    pub(crate) fn counts(&self) -> Counts {
        self.slots.counts()
    }

    pub(crate) fn take_slot(&self) -> bool {
        self.slots.take()
    }

    pub(crate) fn unborn(&self) -> usize {
        // Relaxed: for people, and a limit that may be late.
        self.unborn.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn work_waits(&self) -> bool {
        self.upcall.unstarted()
    }

    #[inline]
    pub(crate) fn is_bracketed(&self) -> bool {
        // Relaxed: B0's barrier is what counts.
        self.bracketed.load(Ordering::Relaxed)
    }

    /// B0.
    #[cold]
    pub(crate) fn set_bracketed(&self) {
        self.bracketed.store(true, Ordering::Relaxed);
        barrier::heavy();
        tally().entered_kernel(1);
    }

    /// Sets the maximum anew, if it has changed.
    pub(crate) fn update_maximum(&self) {
        let changing = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let maximum = maximum::wanted().min(MOST_ACTIVATIONS);
        if maximum != self.maximum() {
            // Relaxed: a limit.
            self.limit.store(limit(maximum), Ordering::Relaxed);
            let _held = preempt::critical();
            for _ in 0..self.slots.set_maximum(maximum as u32) {
                turns::grant(self);
            }
            drop(changing);
            // It starts who lacks, asks who runs beyond it, and sees to work.
            BELL.ring();
        }
    }

    /// Starts activations for the slots that wait for one, and up to the maximum, so that there are enough listeners.
    pub(crate) fn give_births(&self) {
        // SYNC with `unborn` fetch_add in `beget`: what came with the slot.
        for _ in 0..self.unborn.swap(0, Ordering::Acquire) {
            if !turns::hand_to_sleeper(self)
                && self.give_birth(state::RUNNING).is_none()
                && !turns::hand_to_sleeper(self)
            {
                turns::release(self);
            }
        }
        while self.roster.len() < self.maximum() && self.slots.take() {
            if self.give_birth(state::RUNNING).is_none() {
                turns::release(self);
                return;
            }
        }
    }

    /// Has one who sleeps, or a new one, wait for a slot, to take over from one that will be preempted.
    pub(crate) fn call_up(&self) -> Option<&Seat> {
        turns::call_up(self).or_else(|| {
            let born = self.give_birth(state::WAITING)?;
            turns::enlist(self);
            Some(born.seat())
        })
    }

    /// Starts an activation in that state, unless there are too many, or the kernel gives no kernel thread.
    fn give_birth(&self, at: u32) -> Option<&'static Activation> {
        let pool = POOL.get()?;
        let mut spare = self.births.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.roster.len();
        if number >= self.limit.load(Ordering::Relaxed) {
            return None;
        }
        let activation = spare.take().unwrap_or_else(|| Box::leak(Box::new(Activation::new(number, pool))));
        activation.seat().place(at, self.slots.ticket());
        let upcall = self.upcall;
        let body = move || {
            activation.begin();
            // Threads that live here would never run again, and others wait for them.
            aborting("an activation", || upcall.activate(activation))
        };
        let name = format!("activation-{number}");
        match std::thread::Builder::new().name(name).spawn(body) {
            Ok(_) => {
                tally().started();
                self.roster.push(activation);
                Some(activation)
            }
            Err(_) => {
                *spare = Some(activation);
                None
            }
        }
    }
}

/// The most activations for that maximum: others may be blocked meanwhile.
fn limit(maximum: usize) -> usize {
    (8 * maximum::cpus().max(maximum)).clamp(64, MOST_ACTIVATIONS)
}

/// Does what never ends; ends the process if it does.
fn aborting(who: &str, work: impl FnOnce() -> std::convert::Infallible) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        eprintln!("underpass: {who} panicked; aborting");
    }
    std::process::abort();
}

impl World for Pool {
    fn slots(&self) -> &Slots {
        &self.slots
    }

    fn seats(&self) -> impl Iterator<Item = &Seat> {
        self.roster.iter().map(|activation| activation.seat())
    }

    fn wake(&self, seat: &Seat) {
        tally().woke();
        futex::wake(seat.word(), Scope::Private, 1);
    }

    fn wait(&self, seat: &Seat, at: u32) {
        tally().slept();
        futex::wait(Watched { word: seat.word(), expected: at, scope: Scope::Private }, None);
    }

    fn rouse(&self, seat: &Seat) {
        if let Some(activation) = self.roster.iter().find(|activation| std::ptr::eq(activation.seat(), seat))
        {
            activation.parker().call();
        }
    }

    fn beget(&self) -> bool {
        if self.roster.len() + self.unborn() >= self.limit.load(Ordering::Relaxed) {
            return false;
        }
        // SYNC with `unborn` swap in `give_births`: the slot.
        self.unborn.fetch_add(1, Ordering::Release);
        BELL.ring();
        true
    }

    fn unstarted(&self) -> bool {
        self.upcall.unstarted()
    }

    fn bracketed(&self) -> bool {
        self.is_bracketed()
    }

    fn heed(&self) {
        Self::heed();
    }
}
