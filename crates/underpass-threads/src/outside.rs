//! What the rest of the domain sees of an activation: where to leave it work, and how to call it.

use crate::control::Control;
use crate::handle::Info;
use crate::scheduler::{self, Scheduler};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use underpass_processor::{Parker, Pool, Upcall};

/// A thread that has not started. Any activation may take it.
pub(crate) struct Start {
    pub(crate) info: Arc<Info>,
    pub(crate) run: Box<dyn FnOnce() + Send>,
}

/// The outside of one activation.
#[derive(Default)]
pub(crate) struct Outside {
    /// Its threads that others told to go on.
    told: Mutex<Vec<&'static Control>>,
    any_told: AtomicBool,
    /// Threads that have not started.
    fresh: Mutex<VecDeque<Start>>,
    any_fresh: AtomicBool,
    pub(crate) parker: Parker,
}

/// The number of the activation that looks at the lines, or `NOBODY`: while one does, others leave the calls to it, unless
/// it is held up in a procedure.
static LEADER: AtomicUsize = AtomicUsize::new(NOBODY);
const NOBODY: usize = usize::MAX;

/// The activation of this number looks no more.
pub(crate) fn follow(number: usize) {
    // Relaxed, here and in `lead`: it says who is to look, and guards nothing.
    let _ = LEADER.compare_exchange(number, NOBODY, Ordering::Relaxed, Ordering::Relaxed);
}

static OUTSIDES: OnceLock<Box<[Outside]>> = OnceLock::new();

struct Activations;

impl Upcall for Activations {
    fn activate(&self, number: usize) {
        // Each activation waits here until all can be seen.
        Scheduler::new(number, &OUTSIDES.wait()[number]).run();
    }
}

/// Starts this domain's activations, if they aren't yet.
pub fn start() -> &'static Pool {
    let pool = Pool::start(&Activations);
    OUTSIDES.get_or_init(|| (0..pool.most()).map(|_| Outside::default()).collect());
    pool
}

/// All activations of this domain, started by now.
pub(crate) fn all() -> &'static [Outside] {
    start();
    OUTSIDES.get().map_or(&[], |all| all)
}

/// Calls one activation that sleeps, if one does: there is work that any may do.
pub fn rouse() {
    // SYNC with the barrier in `sleep`, between its announcement and its look for work: our work, or its sleep, is seen.
    fence(Ordering::SeqCst);
    // Two callers may choose the same sleeper: who comes second goes on to the next.
    for outside in OUTSIDES.get().into_iter().flatten() {
        if outside.parker.asleep() && outside.parker.call() {
            return;
        }
    }
}

/// Calls every activation that sleeps: the lines have changed, and what they hold of the old ones is to be let go of.
pub fn rouse_all() {
    fence(Ordering::SeqCst);
    for outside in OUTSIDES.get().into_iter().flatten().filter(|outside| outside.parker.asleep()) {
        outside.parker.call();
    }
}

/// Leaves a thread that has not started with an activation, this one if this is one.
pub(crate) fn submit(start: Start) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let all = all();
    let number = scheduler::with(Scheduler::number)
        .unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed) % all.len());
    let outside = &all[number];
    let mut fresh = outside.fresh.lock().unwrap_or_else(PoisonError::into_inner);
    fresh.push_back(start);
    outside.any_fresh.store(true, Ordering::Release);
    drop(fresh);
    rouse();
}

/// A thread of activation `home` was told to go on.
#[inline]
pub(crate) fn make_ready(control: &'static Control, home: usize) {
    let here = scheduler::with(|own| {
        own.number() == home && {
            own.push(control);
            true
        }
    });
    if here == Some(true) {
        return;
    }
    let outside = &all()[home];
    outside.told.lock().unwrap_or_else(PoisonError::into_inner).push(control);
    outside.any_told.store(true, Ordering::Release);
    // SYNC with the barrier in `sleep`: our entry, or its sleep, is seen.
    fence(Ordering::SeqCst);
    if outside.parker.asleep() {
        outside.parker.call();
    }
}

impl Outside {
    /// Whether the activation of this number, whose outside this is, looks at the lines, from now on if nobody did.
    #[inline]
    pub(crate) fn lead(&self, number: usize) -> bool {
        match LEADER.load(Ordering::Relaxed) {
            NOBODY => LEADER.compare_exchange(NOBODY, number, Ordering::Relaxed, Ordering::Relaxed).is_ok(),
            leader => leader == number,
        }
    }

    /// Whether others have left work with this activation: a hint.
    #[inline]
    pub(crate) fn has_told(&self) -> bool {
        self.any_told.load(Ordering::Relaxed)
    }

    /// Moves the threads that others told to go on to `ready`.
    pub(crate) fn collect(&self, ready: &mut VecDeque<&'static Control>) {
        // SYNC with `any_told` store in `make_ready`; the list itself is under its lock.
        if self.any_told.swap(false, Ordering::AcqRel) {
            ready.extend(self.told.lock().unwrap_or_else(PoisonError::into_inner).drain(..));
        }
    }

    /// Whether threads that have not started wait here: a hint.
    #[inline]
    pub(crate) fn has_fresh(&self) -> bool {
        self.any_fresh.load(Ordering::Relaxed)
    }

    /// Takes the thread that has waited longest to start.
    pub(crate) fn take_fresh(&self) -> Option<Start> {
        if !self.has_fresh() {
            return None;
        }
        let mut fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        let start = fresh.pop_front();
        // Under the lock, so that no thread which is pushed now is overlooked.
        self.any_fresh.store(!fresh.is_empty(), Ordering::Release);
        start
    }
}
