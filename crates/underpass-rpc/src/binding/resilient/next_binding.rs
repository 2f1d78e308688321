//! The wait for the next binding, by threads and by tasks.
//!
//! Each wait has one end: the call's deadline or the end of its patience, whichever comes first. It
//! ends earlier if the call is abandoned, its thread is cancelled, or the task is dropped.
//!
//! No wake-up is lost:
//!
//! 1. The waiter enters the list of the present binding and looks for the next binding under one
//!    lock. Afterwards it checks whether it is freed.
//! 2. The attempt stores the next binding under that lock, and wakes all waiters. So the waiter
//!    sees the binding, or is in the list and is woken.
//! 3. `Abandon` first marks the call as freed, then copies the list under the same lock, and then
//!    wakes all waiters of the copy without the lock. If the waiter entered the list after the
//!    copy, it checks after the mark, and sees it. Otherwise it is in the copy, and is woken.

use super::Resilient;
use crate::binding::import::Bound;
use crate::call::abandon::{Freed, Frees, UnderWay};
use crate::call::slot_queue::Who;
use crate::call::task_wakeup::{TaskWakeup, wake_task};
use crate::control::timer::{self, ClerkTimer};
use crate::error::{CallError, Outcome};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use underpass_os::clock;
use underpass_threads::{Latch, Woken, wait_on};

/// A caller that waits for the next binding.
pub(super) struct Waiter {
    number: u64,
    /// Until when it waits, in ns; 0 while it only pauses.
    pub(super) until: u64,
    pub(super) who: Who,
}

/// The limits of a wait.
pub(super) struct WaitEnds {
    pub(super) deadline: Option<u64>,
    pub(super) patience: u64,
    pub(super) under_way: Option<UnderWay>,
}

impl WaitEnds {
    fn first(&self) -> u64 {
        self.deadline.map_or(self.patience, |deadline| deadline.min(self.patience))
    }

    /// How the wait has ended, if it has.
    fn reached(&self, now: u64) -> Option<WaitResult> {
        if let Some(error) = self.under_way.as_ref().and_then(UnderWay::freed) {
            return Some(WaitResult::Ended(error));
        }
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            return Some(WaitResult::Ended(CallError::Deadline));
        }
        (self.patience <= now).then_some(WaitResult::Nothing)
    }
}

/// The result of a wait.
pub(super) enum WaitResult {
    /// There is another binding, of this generation. `why` says why the state of the generation
    /// before did not go on.
    Next { bound: Arc<Bound>, generation: u64, why: Arc<str> },
    /// There is none, or the caller's patience has ended.
    Nothing,
    /// The caller must stop waiting.
    Ended(fn(Outcome) -> CallError),
}

/// The result of one look.
enum Look {
    Over(WaitResult),
    /// It is in the list, and must look again at this time, in ns, unless it is woken before.
    Until(u64),
}

/// The wait for a binding that replaces one that has failed.
pub(super) struct NextBindingWait {
    own: Arc<Resilient>,
    failed: Arc<Bound>,
    /// Until when it pauses first, in ns.
    pause: u64,
    ends: WaitEnds,
    /// How many attempts had failed when it began to wait.
    failures: Option<u64>,
    /// Its number, while it is in the list.
    number: Option<u64>,
}

impl NextBindingWait {
    pub(super) fn new(own: Arc<Resilient>, failed: Arc<Bound>, pause: u64, ends: WaitEnds) -> Self {
        Self { own, failed, pause, ends, failures: None, number: None }
    }

    /// Waits as a thread.
    pub(super) fn wait(mut self) -> WaitResult {
        loop {
            let latch = Arc::new(Latch::default());
            let until = match self.look(Who::Thread(latch.clone())) {
                Look::Over(found) => return found,
                Look::Until(until) => until,
            };
            if wait_on(&*latch, None, Some(until)) == Woken::Cancelled {
                return WaitResult::Ended(CallError::Cancelled);
            }
        }
    }

    /// Waits as a task. Dropping the future ends the wait.
    pub(super) async fn wait_as_task(mut self) -> WaitResult {
        let mut timer = OwnedTimer(None);
        poll_fn(move |cx| {
            let wakeup = TaskWakeup::new(cx.waker().clone());
            match self.look(Who::Task(Arc::new(wakeup))) {
                Look::Over(found) => Poll::Ready(found),
                Look::Until(until) => {
                    let waker = cx.waker().clone();
                    timer.set(timer::set(until, || wake_task(waker)));
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Enters the list anew, as `who`, and looks.
    fn look(&mut self, who: Who) -> Look {
        let (now, end) = (clock::now_ns(), self.ends.first());
        let pauses = now < self.pause;
        let until = if pauses { 0 } else { end };
        let (number, failed, failures) = (self.number, &self.failed, &mut self.failures);
        // Everything that is not kept is dropped without the lock: a waker may be an executor's
        // last reference to a task.
        let mut who = Some(who);
        let looked = self.own.with_unless_forked(|present| {
            let gone = number.and_then(|number| present.leave(number));
            if !pauses {
                let failures = *failures.get_or_insert(present.failures);
                if !Arc::ptr_eq(&present.bound, failed) {
                    let (bound, generation) = (present.bound.clone(), present.generation);
                    let next = WaitResult::Next { bound, generation, why: present.why.clone() };
                    return (gone, false, Err(next));
                }
                if present.failures != failures {
                    return (gone, false, Err(WaitResult::Nothing));
                }
            }
            present.waited += 1;
            let number = present.waited;
            present.waiters.extend(who.take().map(|who| Waiter { number, until, who }));
            // A caller without time left begins no attempt.
            let begins = !pauses && !present.importing && now < end;
            present.importing |= begins;
            (gone, begins, Ok(number))
        });
        let Ok((gone, begins, found)) = looked else {
            return Look::Over(WaitResult::Ended(|_| CallError::Forked));
        };
        drop(gone);
        self.number = found.as_ref().ok().copied();
        if begins {
            self.own.begin_attempt();
        }
        match found {
            // An attempt also fails because the last waiter's time is over. Then report that
            // instead.
            Err(WaitResult::Nothing) => {
                Look::Over(self.ends.reached(clock::now_ns()).unwrap_or(WaitResult::Nothing))
            }
            Err(found) => Look::Over(found),
            Ok(_) => match self.ends.reached(now) {
                Some(found) => Look::Over(found),
                None if pauses => Look::Until(self.pause.min(end)),
                None => Look::Until(end),
            },
        }
    }
}

impl Drop for NextBindingWait {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let left = self.own.with_unless_forked(|present| {
            let gone = present.leave(number);
            let wanted = present.wanted_until() > 0;
            (gone, present.restoring.clone().filter(|_| !wanted))
        });
        let Ok((gone, unwanted)) = left else { return };
        drop(gone);
        // No caller waits any more for what the hook restores.
        unwanted.iter().for_each(crate::call::abandon::Abandon::abandon);
    }
}

impl super::Present {
    fn leave(&mut self, number: u64) -> Option<Waiter> {
        let place = self.waiters.iter().position(|waiter| waiter.number == number)?;
        Some(self.waiters.swap_remove(place))
    }

    /// Until when a caller waits for the next binding, in ns; 0 if none does.
    pub(super) fn wanted_until(&self) -> u64 {
        self.waiters.iter().map(|waiter| waiter.until).max().unwrap_or(0)
    }
}

impl Frees for Resilient {
    fn free(&self, _: Option<u16>) -> Vec<Freed> {
        // The waiters stay in the list until they have looked.
        let who = |waiter: &Waiter| Freed::Waiter(waiter.who.clone());
        self.with(|present| present.waiters.iter().map(who).collect())
    }
}

/// A timer that is cancelled when this is dropped.
struct OwnedTimer(Option<ClerkTimer>);

impl OwnedTimer {
    fn set(&mut self, timer: ClerkTimer) {
        if let Some(earlier) = self.0.replace(timer) {
            earlier.cancel();
        }
    }
}

impl Drop for OwnedTimer {
    fn drop(&mut self) {
        if let Some(timer) = self.0.take() {
            timer.cancel();
        }
    }
}
