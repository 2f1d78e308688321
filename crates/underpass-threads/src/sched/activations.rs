//! What the rest of the domain sees of an activation: where to leave it work, and how to call it.

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

/// Something that an activation does between two threads, for others.
pub(crate) type InjectedTask = Box<dyn FnOnce(&'static Scheduler) + Send>;

/// The outside of one activation. Small, so that those of all lie on a page or two; and apart from
/// the others' lines, as its own kernel thread writes it at every switch.
#[repr(align(128))]
pub(crate) struct Outside {
    pub(crate) activation: &'static Activation,
    /// Its threads that can go on. Its own; others see whether there are any.
    pub(crate) ready: LinkedQueue<Control>,
    /// The thread that runs. Its own; others read it, for people.
    pub(crate) current: StaticSlot<Control>,
    /// The thread that is in a blocking call on it, or listens for the next loan. Its own; others
    /// read it, for people.
    pub(crate) in_blocking_call: StaticSlot<Control>,
    /// Its threads that others told to go on.
    pub(crate) inbox: Inbox<Control>,
    injected: Mutex<Vec<InjectedTask>>,
    any_injected: AtomicBool,
    /// Threads that any activation may take.
    pub(crate) free: Ring<Control, 1024>,
    /// It runs one thread that wants an activation of its own. Its own; others read it.
    pub(crate) dedicated: AtomicBool,
    /// Threads that have started and live here. Its own; others read it.
    pub(crate) live: AtomicU32,
    /// Its inside, once it has begun. Its own kernel thread's; after that has ended, the one's that
    /// takes its place.
    pub(crate) inside: Owned<Option<&'static Scheduler>>,
}

/// The number of the activation that looks at the lines, or `NOBODY`: while one does, others leave
/// the calls to it, unless it is held up in a procedure.
static LEADER: AtomicUsize = AtomicUsize::new(NOBODY);
const NOBODY: usize = usize::MAX;

/// The activation of this number looks no more.
pub(crate) fn follow(number: usize) {
    // Relaxed, here and in `lead`: it says who is to look, and guards nothing.
    let _ = LEADER.compare_exchange(number, NOBODY, Ordering::Relaxed, Ordering::Relaxed);
}

/// Whether the activation of this number looks at the lines, from now on if nobody did.
#[inline]
pub(crate) fn lead(number: usize) -> bool {
    match LEADER.load(Ordering::Relaxed) {
        NOBODY => LEADER.compare_exchange(NOBODY, number, Ordering::Relaxed, Ordering::Relaxed).is_ok(),
        leader => leader == number,
    }
}

/// Whether a sleeping activation is told of what comes on the lines.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Says whether a sleeping activation will be told of what comes.
pub(crate) fn set_watched(watched: bool) {
    // Relaxed: whether one more activation is called to look; `sleep` has its own protocol.
    WATCHED.store(watched, Ordering::Relaxed);
}

/// Whether one is.
pub(crate) fn watched() -> bool {
    WATCHED.load(Ordering::Relaxed)
}

static OUTSIDES: [OnceLock<Outside>; MOST_ACTIVATIONS] = [const { OnceLock::new() }; MOST_ACTIVATIONS];

/// Activations that are about to begin or have begun have lower numbers.
static BEGUN: AtomicUsize = AtomicUsize::new(0);

/// The outside of `activation`, which is about to begin.
pub(crate) fn begin(activation: &'static Activation) -> &'static Outside {
    let outside = OUTSIDES[activation.number()].get_or_init(|| Outside::new(activation));
    BEGUN.fetch_max(activation.number() + 1, Ordering::AcqRel);
    outside
}

/// All activations of this domain that have begun.
pub(crate) fn all() -> impl Iterator<Item = &'static Outside> {
    // SYNC with `BEGUN` fetch_max in `activate`: who has begun is seen by who comes later.
    OUTSIDES[..BEGUN.load(Ordering::Acquire)].iter().filter_map(OnceLock::get)
}

/// How many numbers of activations there are.
pub(crate) fn count() -> usize {
    // Relaxed: a guess.
    BEGUN.load(Ordering::Relaxed)
}

/// That of the activation of this number, if it has begun.
pub(crate) fn if_begun(number: usize) -> Option<&'static Outside> {
    OUTSIDES[number].get()
}

/// That of the activation of this number.
pub(crate) fn at(number: usize) -> &'static Outside {
    OUTSIDES[number].wait()
}

/// Calls one activation that sleeps, if one may run: there is work that any may do. OThreads'
/// `ActivationRequest`.
#[inline]
pub fn wake_idle() {
    // SYNC with the heavy barrier in `sleep`: our work, or the sleep of who would do it, is seen.
    barrier::light();
    start().request();
}

/// Calls have come, and who looks may not be enough for them: calls one activation that sleeps, if
/// a processor is free for it.
pub fn invite() {
    barrier::light();
    start().invite();
}

/// Calls have waited for longer than they should, and their caller says so: calls one activation
/// that sleeps, or has one take the place of one that is blocked in the kernel.
pub fn insist() {
    barrier::light();
    start().insist();
}

/// Calls every activation that sleeps: the lines have changed, and what they hold of the old ones
/// is to be let go of.
pub fn wake_all_idle() {
    barrier::light();
    all().for_each(Outside::call);
}

impl Outside {
    /// For debuggers, as the table says.
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
        // SYNC with the heavy barrier in `sleep`: what was left, or its sleep, is seen.
        barrier::light();
        self.call();
        Pool::heed();
    }

    fn call(&self) {
        let parker = self.activation.parker();
        if parker.asleep() {
            parker.call();
        }
    }

    /// Has the activation do something between two threads.
    pub(crate) fn inject(&self, task: InjectedTask) {
        // Schedulers take this lock: who is preempted must not hold it.
        let held = critical();
        self.injected.lock().unwrap_or_else(PoisonError::into_inner).push(task);
        drop(held);
        // SYNC with `any_injected` swap in `injected`; the list itself is under its lock. A swap,
        // since some sleep without a heavy barrier.
        self.any_injected.swap(true, Ordering::AcqRel);
        self.look_up();
    }

    /// Whether others have left something with this activation: a hint.
    #[inline]
    pub(crate) fn has_remote_work(&self) -> bool {
        // Relaxed: looked at again and again.
        !self.inbox.is_empty() || self.any_injected.load(Ordering::Relaxed)
    }

    /// Takes the threads that others told to go on.
    #[inline]
    pub(crate) fn take_inbox(&self, each: impl FnMut(&'static Control)) {
        if !self.inbox.is_empty() {
            self.inbox.take_all(each);
        }
    }

    /// Takes what others want done.
    pub(crate) fn take_injected(&self) -> Vec<InjectedTask> {
        // SYNC with `any_injected` store in `ask`.
        if self.any_injected.load(Ordering::Relaxed) && self.any_injected.swap(false, Ordering::Acquire) {
            return std::mem::take(&mut *self.injected.lock().unwrap_or_else(PoisonError::into_inner));
        }
        Vec::new()
    }
}
