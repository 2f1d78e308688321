//! Threads that any activation may take: unstarted threads, and migrating ones that can go on.

use crate::block::control::{Control, flag};
use crate::sched::activations::{self, Outside};
use crate::sched::no_preempt::critical;
use crate::sched::scheduler::{self, Scheduler};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A list for all activations. Kernel threads leave threads here, and activations leave those for
/// which their rings have no room.
struct Common {
    waiting: Mutex<VecDeque<&'static Control>>,
    any: AtomicBool,
}

static COMMON: Common = Common::new();
/// Threads that want an activation of their own.
static DEDICATED: Common = Common::new();

impl Common {
    const fn new() -> Self {
        Self { waiting: Mutex::new(VecDeque::new()), any: AtomicBool::new(false) }
    }

    fn put(&self, control: &'static Control) {
        // Schedulers take this lock, so its holder must not be preempted.
        let _held = critical();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push_back(control);
        // SYNC with `any` load in `has`: a hint. The list itself is under its lock. A swap rather
        // than a store, since some sleepers issue no heavy barrier.
        self.any.swap(true, Ordering::AcqRel);
    }

    #[inline]
    fn has(&self) -> bool {
        // Relaxed: a caller that acts on the answer looks under the lock.
        self.any.load(Ordering::Relaxed)
    }

    /// Takes the first thread. Gives further ones to `room` as long as that accepts them, so that
    /// the lock is not taken for each.
    fn take(&self, mut room: impl FnMut(&'static Control) -> bool) -> Option<&'static Control> {
        if !self.has() {
            return None;
        }
        let _held = critical();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let first = waiting.pop_front();
        while let Some(&next) = waiting.front() {
            if !room(next) {
                break;
            }
            waiting.pop_front();
        }
        // Under the lock, so that no thread is overlooked that is put in now.
        self.any.store(!waiting.is_empty(), Ordering::Release);
        first
    }
}

/// Starts the thread of `control`.
///
/// # Safety
/// The block is empty, and nobody but the caller uses it. What `body` borrows outlives its run.
#[inline]
pub(crate) unsafe fn start<F: FnOnce() -> T, T>(control: &'static Control, body: F) {
    // SAFETY: as the caller says.
    unsafe { control.body.fill(body) };
    submit(control);
}

/// Leaves a thread for any activation to take.
#[inline]
pub(crate) fn submit(control: &'static Control) {
    if control.has(flag::DEDICATED) {
        DEDICATED.put(control);
    } else {
        let left = scheduler::with(|own| own.outside().free.put(control));
        if let Some(Err(control)) = left {
            COMMON.put(control);
        } else if left.is_none() {
            COMMON.put(control);
        }
    }
    activations::wake_idle();
}

/// Whether any such thread waits: a hint, exact after a heavy barrier.
pub(crate) fn any() -> bool {
    COMMON.has() || DEDICATED.has() || activations::all().any(|outside| !outside.free.is_empty())
}

/// How many such threads there are: a hint. Those of the common lists count as one each.
pub(crate) fn count() -> u32 {
    let rings: usize = activations::all().map(|outside| outside.free.len()).sum();
    rings as u32 + u32::from(COMMON.has()) + u32::from(DEDICATED.has())
}

/// Whether the activation of `outside` would take such a thread: a hint, exact after a heavy
/// barrier.
pub(crate) fn suits(outside: &Outside) -> bool {
    // Relaxed, both: to other activations these are hints.
    outside.activation.listens_on().is_none()
        && !outside.dedicated.load(Ordering::Relaxed)
        && (COMMON.has()
            || (DEDICATED.has() && outside.live.load(Ordering::Relaxed) == 0)
            || activations::all().any(|outside| !outside.free.is_empty()))
}

/// At most this many threads move from the common list to a ring at a time.
const MOVE: usize = 128;

#[cold]
#[inline(never)]
fn take_common(own: &Outside) -> Option<&'static Control> {
    let mut moved = 0;
    COMMON.take(|next| {
        moved += 1;
        moved < MOVE && own.free.put(next).is_ok()
    })
}

impl Scheduler {
    /// A thread to start, or to go on, from this activation's own ring or the common list.
    #[inline]
    pub(crate) fn take_near(&self) -> Option<&'static Control> {
        let own: &Outside = self.outside();
        match own.free.take() {
            None if COMMON.has() && !self.is_listener() => take_common(own),
            taken => taken,
        }
    }

    /// A thread that wants an activation of its own, if no thread lives on this one.
    pub(crate) fn take_dedicated(&self) -> Option<&'static Control> {
        if self.live() > 0 { None } else { DEDICATED.take(|_| false) }
    }

    /// Whether there are threads that this activation would take. Asked before it sleeps.
    pub(crate) fn may_find(&self) -> bool {
        suits(self.outside())
    }

    /// A thread of an activation that has no processor at the moment, or keeps it for a dedicated
    /// thread.
    pub(crate) fn steal_from_others(&self) -> Option<&'static Control> {
        activations::all()
            .filter(|other| other.activation.summoned() || other.dedicated.load(Ordering::Relaxed))
            .find_map(|other| other.free.take())
    }

    /// A thread of another activation.
    pub(crate) fn steal(&self) -> Option<&'static Control> {
        // Each thief begins with another victim.
        let begin = self.number() + 1;
        let count = activations::count();
        (0..count).find_map(|i| activations::if_begun((begin + i) % count)?.free.take())
    }
}
