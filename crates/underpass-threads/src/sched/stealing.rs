//! Threads that any activation may take: those that have not started, and migrating ones that can
//! go on.

use crate::block::control::{Control, flag};
use crate::sched::activations::{self, Outside};
use crate::sched::no_preempt::critical;
use crate::sched::scheduler::{self, Scheduler};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Where kernel threads leave threads, and activations those for which their rings have no room.
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
        // Schedulers take this lock: who is preempted must not hold it.
        let _held = critical();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push_back(control);
        // SYNC with `any` load in `has`: a hint; the list itself is under its lock. A swap, since
        // some sleep without a heavy barrier.
        self.any.swap(true, Ordering::AcqRel);
    }

    #[inline]
    fn has(&self) -> bool {
        // Relaxed: who acts on it looks under the lock.
        self.any.load(Ordering::Relaxed)
    }

    /// Takes the first, and gives as many more as `room` wants to it, so that the lock is not taken
    /// for each.
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
        // Under the lock, so that no thread which is put in now is overlooked.
        self.any.store(!waiting.is_empty(), Ordering::Release);
        first
    }
}

/// Starts the thread of `control`.
///
/// # Safety
/// The block is empty and the caller's alone. What `body` borrows outlives its run.
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

/// Whether any wait: a hint, exact after a heavy barrier.
pub(crate) fn any() -> bool {
    COMMON.has() || DEDICATED.has() || activations::all().any(|outside| !outside.free.is_empty())
}

/// Whether the activation of this outside would take some of them: a hint, exact after a heavy
/// barrier.
pub(crate) fn suits(outside: &Outside) -> bool {
    // Relaxed, both: others' looks are hints.
    outside.activation.listens_on().is_none()
        && !outside.dedicated.load(Ordering::Relaxed)
        && (COMMON.has()
            || (DEDICATED.has() && outside.live.load(Ordering::Relaxed) == 0)
            || activations::all().any(|outside| !outside.free.is_empty()))
}

/// How many moves at a time from the common list to a ring.
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
    /// The thread that is to start or to go on here, from this activation's own ring or the common
    /// list.
    #[inline]
    pub(crate) fn take_near(&self) -> Option<&'static Control> {
        let own: &Outside = self.outside();
        match own.free.take() {
            None if COMMON.has() && !self.is_listener() => take_common(own),
            taken => taken,
        }
    }

    /// One that wants an activation of its own, if this one has no threads.
    pub(crate) fn take_dedicated(&self) -> Option<&'static Control> {
        if self.live() > 0 { None } else { DEDICATED.take(|_| false) }
    }

    /// Whether there are threads that this activation would take: before it sleeps.
    pub(crate) fn may_find(&self) -> bool {
        suits(self.outside())
    }

    /// One that an activation has which has no processor at the moment, or keeps it for a thread of
    /// its own.
    pub(crate) fn steal_from_others(&self) -> Option<&'static Control> {
        activations::all()
            .filter(|other| other.activation.summoned() || other.dedicated.load(Ordering::Relaxed))
            .find_map(|other| other.free.take())
    }

    /// One that another activation has.
    pub(crate) fn steal(&self) -> Option<&'static Control> {
        // Not all begin with the same victim.
        let begin = self.number() + 1;
        let count = activations::count();
        (0..count).find_map(|i| activations::if_begun((begin + i) % count)?.free.take())
    }
}
