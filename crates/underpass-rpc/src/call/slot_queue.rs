//! The queue of callers that wait for a free slot: first come, first served, among those that may
//! lease it.

use crate::call::task_wakeup::TaskWakeup;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use underpass_channel::Tag;
use underpass_processor::Line;
use underpass_seam::atomic::{AtomicU32, Ordering};
use underpass_threads::{Latch, Woken, wait_on};

/// Callers that wait until a slot is given back.
///
/// No give-back is missed. A waiter increments `waiting` before it tries to lease under the lock of
/// the slots. A caller that gives a slot back does so under that lock before it loads `waiting`. So
/// either the waiter's try finds the slot, or the giver's load finds the waiter.
///
/// Some callers want a slot only while fewer than `most` are leased, and no row has more than its
/// share. A giver passes over a caller while too many are leased for it. It looks after it has
/// given its own back. So if it finds too many, another caller has leased since, and that caller
/// will give back in turn.
#[derive(Debug, Default)]
pub(crate) struct SlotQueue {
    waiting: AtomicU32,
    latches: Mutex<VecDeque<Waiter>>,
}

/// A caller that waits.
#[derive(Debug)]
struct Waiter {
    who: Who,
    wish: SlotWish,
}

/// What a caller needs to lease a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotWish {
    /// The number of leased slots that is too many for it.
    pub(crate) most: u32,
    /// The row over which it calls.
    pub(crate) row: Tag,
}

/// A thread or a task that waits, to be woken once.
#[derive(Clone, Debug)]
pub(crate) enum Who {
    Thread(Arc<Latch>),
    Task(Arc<TaskWakeup>),
}

impl Who {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Thread(one), Self::Thread(other)) => Arc::ptr_eq(one, other),
            (Self::Task(one), Self::Task(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    pub(crate) fn call(&self) {
        match self {
            Self::Thread(latch) => latch.open(),
            Self::Task(wakeup) => wakeup.call(),
        }
    }
}

impl SlotQueue {
    /// Calls `attempt` until it gives something, and sleeps in between. Fails if `deadline` passes
    /// first, or if the caller's calls are to end. Polls `line` while it waits. `has_room` says
    /// whether a caller with a wish may lease.
    pub(crate) fn wait<T>(
        &self,
        deadline: Option<u64>,
        line: &dyn Line,
        wish: SlotWish,
        has_room: impl Fn(&SlotWish) -> bool,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Result<T, Woken> {
        loop {
            let latch = Arc::new(Latch::default());
            self.enter(false, Waiter { who: Who::Thread(latch.clone()), wish });
            if let Some(got) = attempt() {
                self.leave(&Who::Thread(latch), &has_room);
                return Ok(got);
            }
            let why = wait_on(&*latch, Some(line), deadline);
            if why != Woken::Woken {
                self.leave(&Who::Thread(latch), &has_room);
                return Err(why);
            }
            if let Some(got) = attempt() {
                return Ok(got);
            }
        }
    }

    /// A task enters the queue. It tries to lease after this, and whenever it is woken. If it was
    /// woken once and found nothing, it is `first`: it goes before all others.
    pub(crate) fn enter_task(&self, first: bool, wish: SlotWish, waker: &Waker) -> Arc<TaskWakeup> {
        let wakeup = Arc::new(TaskWakeup::new(waker.clone()));
        self.enter(first, Waiter { who: Who::Task(wakeup.clone()), wish });
        wakeup
    }

    /// The task waits no more.
    pub(crate) fn leave_task(&self, wakeup: Arc<TaskWakeup>, has_room: impl Fn(&SlotWish) -> bool) {
        self.leave(&Who::Task(wakeup), has_room);
    }

    fn enter(&self, first: bool, waiter: Waiter) {
        let mut latches = self.latches.lock().unwrap_or_else(PoisonError::into_inner);
        match first {
            true => latches.push_front(waiter),
            false => latches.push_back(waiter),
        }
        drop(latches);
        self.waiting.fetch_add(1, Ordering::SeqCst);
    }

    /// A waiter leaves without having been woken. If it was woken all the same, the next waiter is
    /// woken instead.
    fn leave(&self, who: &Who, has_room: impl Fn(&SlotWish) -> bool) {
        let mut latches = self.latches.lock().unwrap_or_else(PoisonError::into_inner);
        match latches.iter().position(|waiter| waiter.who.is(who)) {
            Some(place) => {
                latches.remove(place);
                self.waiting.fetch_sub(1, Ordering::SeqCst);
            }
            None => {
                drop(latches);
                self.next(has_room);
            }
        }
    }

    /// A slot was given back: wakes the first waiter that may lease it.
    #[inline]
    pub(crate) fn next(&self, has_room: impl Fn(&SlotWish) -> bool) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.call_one(has_room);
        }
    }

    #[cold]
    fn call_one(&self, has_room: impl Fn(&SlotWish) -> bool) {
        let mut latches = self.latches.lock().unwrap_or_else(PoisonError::into_inner);
        // Many callers may wish the same in vain: those over one row that has its share.
        let mut vain: Option<SlotWish> = None;
        let first = latches.iter().position(|waiter| {
            let has_room = vain != Some(waiter.wish) && has_room(&waiter.wish);
            if !has_room {
                vain = Some(waiter.wish);
            }
            has_room
        });
        let first = first.and_then(|place| latches.remove(place));
        drop(latches);
        if let Some(waiter) = &first {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            waiter.who.call();
        }
    }

    /// Takes the waiters out that call over a row. The caller of this wakes them.
    pub(crate) fn take_of(&self, row: Tag) -> Vec<Who> {
        let mut latches = self.latches.lock().unwrap_or_else(PoisonError::into_inner);
        let waiters = std::mem::take(&mut *latches);
        let (of_row, others): (VecDeque<_>, VecDeque<_>) =
            waiters.into_iter().partition(|waiter: &Waiter| waiter.wish.row == row);
        *latches = others;
        drop(latches);
        self.waiting.fetch_sub(of_row.len() as u32, Ordering::SeqCst);
        of_row.into_iter().map(|waiter| waiter.who).collect()
    }

    /// Takes every waiter out. The caller of this wakes them.
    pub(crate) fn take_all(&self) -> Vec<Who> {
        let mut latches = self.latches.lock().unwrap_or_else(PoisonError::into_inner);
        let waiters = std::mem::take(&mut *latches);
        drop(latches);
        self.waiting.fetch_sub(waiters.len() as u32, Ordering::SeqCst);
        waiters.into_iter().map(|waiter| waiter.who).collect()
    }
}
