//! What the rest of the domain sees of each activation: where to leave it work, and how to wake it.

use crate::block::control::Control;
use crate::block::owned::Owned;
use crate::lists::inbox::Inbox;
use crate::lists::linked::LinkedQueue;
use crate::lists::ring::Ring;
use crate::sched::no_preempt::critical;
use crate::sched::scheduler::Scheduler;
use crate::start::start;
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use underpass_os::barrier;
use underpass_processor::{Activation, MOST_ACTIVATIONS, Pool};
use underpass_seam::StaticSlot;

/// A closure that an activation runs between two threads, for another thread.
pub(crate) type InjectedTask = Box<dyn FnOnce(&'static Scheduler) + Send>;

/// The shared part of one activation. It is small, so that the shared parts of all lie on a page or
/// two. It has cache lines of its own, because its kernel thread writes it at every switch.
#[repr(align(128))]
pub(crate) struct Outside {
    pub(crate) activation: &'static Activation,
    /// Its threads that can go on. Only its kernel thread changes the list; others ask whether it
    /// is empty.
    pub(crate) ready: LinkedQueue<Control>,
    /// The thread that runs. Only its kernel thread writes it; dumps read it.
    pub(crate) current: StaticSlot<Control>,
    /// The thread that is in a blocking call, or listens for the next loan. Only its kernel thread
    /// writes it; dumps read it.
    pub(crate) in_blocking_call: StaticSlot<Control>,
    /// Remote wake-ups: its threads that others have woken.
    pub(crate) inbox: Inbox<Control>,
    injected: Mutex<Vec<InjectedTask>>,
    any_injected: AtomicBool,
    /// Threads that any activation may steal.
    pub(crate) free: Ring<Control, 1024>,
    /// It runs one thread that wants an activation of its own. Only its kernel thread writes it.
    pub(crate) dedicated: AtomicBool,
    /// How many threads have started and live here. Only its kernel thread writes it.
    pub(crate) live: AtomicU32,
    /// Its scheduler, once it has begun. It belongs to its kernel thread, and after the end of that
    /// to the successor.
    pub(crate) inside: Owned<Option<&'static Scheduler>>,
}

/// The leader: the number of the activation that polls the lines, or `NOBODY`. The others leave
/// incoming calls to the leader, unless it is held up in a procedure.
static LEADER: AtomicUsize = AtomicUsize::new(NOBODY);
const NOBODY: usize = usize::MAX;

/// The activation of this number is not the leader any more.
pub(crate) fn follow(number: usize) {
    // Relaxed, here and in `lead`: the word says who polls, and guards nothing.
    let _ = LEADER.compare_exchange(number, NOBODY, Ordering::Relaxed, Ordering::Relaxed);
}

/// Whether the activation of this number is the leader. It becomes the leader if there is none.
#[inline]
pub(crate) fn lead(number: usize) -> bool {
    match LEADER.load(Ordering::Relaxed) {
        NOBODY => LEADER.compare_exchange(NOBODY, number, Ordering::Relaxed, Ordering::Relaxed).is_ok(),
        leader => leader == number,
    }
}

/// Whether a sleeping activation watches the lines.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Says whether a sleeping activation watches the lines from now on.
pub(crate) fn set_watched(watched: bool) {
    // Relaxed: it only decides whether one more activation is woken. `sleep` has its own protocol.
    WATCHED.store(watched, Ordering::Relaxed);
}

/// Whether a sleeping activation watches the lines.
pub(crate) fn watched() -> bool {
    WATCHED.load(Ordering::Relaxed)
}

static OUTSIDES: [OnceLock<Outside>; MOST_ACTIVATIONS] = [const { OnceLock::new() }; MOST_ACTIVATIONS];

/// The number of each activation that has begun, or is about to, is lower than this.
static BEGUN: AtomicUsize = AtomicUsize::new(0);

/// The shared part of `activation`, which is about to begin.
pub(crate) fn begin(activation: &'static Activation) -> &'static Outside {
    let outside = OUTSIDES[activation.number()].get_or_init(|| Outside::new(activation));
    BEGUN.fetch_max(activation.number() + 1, Ordering::AcqRel);
    outside
}

/// All activations of this domain that have begun.
pub(crate) fn all() -> impl Iterator<Item = &'static Outside> {
    // SYNC with `BEGUN` fetch_max in `begin`: an activation that has begun is seen by a later
    // caller.
    OUTSIDES[..BEGUN.load(Ordering::Acquire)].iter().filter_map(OnceLock::get)
}

/// An upper bound of the numbers of activations.
pub(crate) fn count() -> usize {
    // Relaxed: a guess.
    BEGUN.load(Ordering::Relaxed)
}

/// The shared part of the activation of this number, if that has begun.
pub(crate) fn if_begun(number: usize) -> Option<&'static Outside> {
    OUTSIDES[number].get()
}

/// The shared part of the activation of this number.
pub(crate) fn at(number: usize) -> &'static Outside {
    OUTSIDES[number].wait()
}

/// Wakes one idle activation, if one may run: there is work that any may do. OThreads'
/// `ActivationRequest`.
#[inline]
pub fn wake_idle() {
    // SYNC with the heavy barrier in `sleep`: either the sleeper sees our work, or we see that it
    // sleeps.
    barrier::light();
    start().request();
}

/// Calls have come, and the activations that poll may not be enough for them. Wakes one idle
/// activation, if a processor is free for it.
pub fn invite() {
    barrier::light();
    start().invite();
}

/// Calls keep coming over donated processors. Wakes one idle activation to poll for them, or asks
/// for a processor that other domains don't want.
pub fn invite_or_want() {
    barrier::light();
    start().invite_or_want();
}

/// Calls have waited for too long, and their caller has retried the notification. Wakes one idle
/// activation, or has one take the place of one that is blocked in the kernel.
pub fn invite_or_check() {
    barrier::light();
    start().invite_or_check();
}

/// Wakes every idle activation: the lines have changed, so each has to drop its references to the
/// old ones.
pub fn wake_all_idle() {
    barrier::light();
    all().for_each(Outside::call);
}

impl Outside {
    /// Offsets of fields, for the debugger's table.
    pub(crate) const OFFSETS: [u64; 4] = [
        offset_of!(Self, current) as u64,
        offset_of!(Self, in_blocking_call) as u64,
        (offset_of!(Self, ready) + LinkedQueue::<Control>::PLACE_OF_FIRST) as u64,
        offset_of!(Self, inbox) as u64,
    ];

    fn new(activation: &'static Activation) -> Self {
        Self {
            activation,
            ready: LinkedQueue::default(),
            current: StaticSlot::new(),
            in_blocking_call: StaticSlot::new(),
            inbox: Inbox::default(),
            injected: Mutex::default(),
            any_injected: AtomicBool::new(false),
            free: Ring::default(),
            dedicated: AtomicBool::new(false),
            live: AtomicU32::new(0),
            inside: Owned::new(None),
        }
    }

    /// Has the activation look at what was left with it.
    pub(crate) fn look_up(&self) {
        // SYNC with the heavy barrier in `sleep`: either the sleeper sees what was left, or we see
        // that it sleeps.
        barrier::light();
        self.call();
        Pool::wake_monitor();
    }

    fn call(&self) {
        let parker = self.activation.parker();
        if parker.asleep() {
            parker.unpark();
        }
    }

    /// Has the activation run `task` between two threads.
    pub(crate) fn inject(&self, task: InjectedTask) {
        // Schedulers take this lock, so its holder must not be preempted.
        let held = critical();
        self.injected.lock().unwrap_or_else(PoisonError::into_inner).push(task);
        drop(held);
        // SYNC with `any_injected` swap in `take_injected`. The list itself is under its lock. A
        // swap rather than a store, since some sleepers issue no heavy barrier.
        self.any_injected.swap(true, Ordering::AcqRel);
        self.look_up();
    }

    /// Whether others have left wake-ups or tasks with this activation: a hint.
    #[inline]
    pub(crate) fn has_remote_work(&self) -> bool {
        // Relaxed: the scheduler asks again and again.
        !self.inbox.is_empty() || self.any_injected.load(Ordering::Relaxed)
    }

    /// Whether others have left tasks with this activation: a hint. If the caller relies on a task
    /// that another thread leaves, a barrier must come before this call.
    pub(crate) fn is_injected(&self) -> bool {
        // Relaxed: the barrier orders it.
        self.any_injected.load(Ordering::Relaxed)
    }

    /// Takes the threads that others have woken.
    #[inline]
    pub(crate) fn take_inbox(&self, each: impl FnMut(&'static Control)) {
        if !self.inbox.is_empty() {
            self.inbox.take_all(each);
        }
    }

    /// Takes the tasks that others have injected.
    pub(crate) fn take_injected(&self) -> Vec<InjectedTask> {
        // SYNC with `any_injected` swap in `inject`.
        if self.any_injected.load(Ordering::Relaxed) && self.any_injected.swap(false, Ordering::Acquire) {
            return std::mem::take(&mut *self.injected.lock().unwrap_or_else(PoisonError::into_inner));
        }
        Vec::new()
    }
}
