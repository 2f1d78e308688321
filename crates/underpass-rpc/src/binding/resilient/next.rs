//! The wait for the next binding, by threads and by tasks.
//!
//! Each wait has one end: the call's deadline or the end of its patience, whichever comes first. It
//! ends earlier if the call is abandoned, its thread is cancelled, or the task is dropped.
//!
//! A waiter enters the list of the present binding and looks for the next one under one lock, and
//! only then asks whether it is freed. The attempt puts the next binding there under the lock, and
//! calls all waiters. `Abandon` says first that a call is freed, then copies the list under the same
//! lock, and calls all waiters of the copy without it. So the waiter either sees the change, or is
//! called.

use super::Resilient;
use crate::binding::import::Bound;
use crate::call::abandon::{Freed, Frees, UnderWay};
use crate::call::slot_queue::Who;
use crate::call::task_wakeup::{TaskWakeup, wake_task};
use crate::control::alarm::{self, Alarm};
use crate::error::{CallError, Outcome};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use underpass_os::clock;
use underpass_threads::{Latch, Woken, wait_on};

/// A caller that waits for the next binding.
pub(super) struct Waiter {
    number: u64,
    /// Until when, in ns; 0 if it only pauses before it does.
    pub(super) until: u64,
    pub(super) who: Who,
}

/// What ends a wait in any case.
pub(super) struct Ends {
    pub(super) deadline: Option<u64>,
    pub(super) patience: u64,
    pub(super) under_way: Option<UnderWay>,
}

impl Ends {
    fn first(&self) -> u64 {
        self.deadline.map_or(self.patience, |deadline| deadline.min(self.patience))
    }

    /// How the wait has ended, if it has.
    fn reached(&self, now: u64) -> Option<Found> {
        if let Some(error) = self.under_way.as_ref().and_then(UnderWay::freed) {
            return Some(Found::Ended(error));
        }
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            return Some(Found::Ended(CallError::Deadline));
        }
        (self.patience <= now).then_some(Found::Nothing)
    }
}

/// How a wait ended.
pub(super) enum Found {
    /// There is another binding, of this generation, and why that is none before it.
    Next { bound: Arc<Bound>, generation: u64, why: Arc<str> },
    /// There is none, or the caller's patience has ended.
    Nothing,
    /// The caller is to wait no more.
    Ended(fn(Outcome) -> CallError),
}

/// What a waiter has seen.
enum Look {
    Over(Found),
    /// It is in the list, and is to look again at this time, in ns, if it is not called before.
    Until(u64),
}

/// A wait for another binding than one that has failed.
pub(super) struct Waiting {
    own: Arc<Resilient>,
    failed: Arc<Bound>,
    /// Until when it pauses first, in ns.
    pause: u64,
    ends: Ends,
    /// How many attempts had failed when it began to wait.
    failures: Option<u64>,
    /// Its number, while it is in the list.
    number: Option<u64>,
}

impl Waiting {
    pub(super) fn new(own: Arc<Resilient>, failed: Arc<Bound>, pause: u64, ends: Ends) -> Self {
        Self { own, failed, pause, ends, failures: None, number: None }
    }

    /// Waits, as a thread.
    pub(super) fn wait(mut self) -> Found {
        loop {
            let latch = Arc::new(Latch::default());
            let until = match self.look(Who::Thread(latch.clone())) {
                Look::Over(found) => return found,
                Look::Until(until) => until,
            };
            if wait_on(&*latch, None, Some(until)) == Woken::Cancelled {
                return Found::Ended(CallError::Cancelled);
            }
        }
    }

    /// Waits, as a task. To drop it ends the wait.
    pub(super) async fn wait_as_task(mut self) -> Found {
        let mut alarm = Ringing(None);
        poll_fn(move |cx| {
            let wakeup = TaskWakeup::new(cx.waker().clone());
            match self.look(Who::Task(Arc::new(wakeup))) {
                Look::Over(found) => Poll::Ready(found),
                Look::Until(until) => {
                    let waker = cx.waker().clone();
                    alarm.set(alarm::set(until, || wake_task(waker)));
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
        // What is not kept is dropped without the lock: a waker may be an executor's last hold on a
        // task.
        let mut who = Some(who);
        let (gone, begins, found) = self.own.with(|present| {
            let gone = number.and_then(|number| present.leave(number));
            if !pauses {
                let failures = *failures.get_or_insert(present.failures);
                if !Arc::ptr_eq(&present.bound, failed) {
                    let (bound, generation) = (present.bound.clone(), present.generation);
                    let next = Found::Next { bound, generation, why: present.why.clone() };
                    return (gone, false, Err(next));
                }
                if present.failures != failures {
                    return (gone, false, Err(Found::Nothing));
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
        drop(gone);
        self.number = found.as_ref().ok().copied();
        if begins {
            self.own.begin_attempt();
        }
        match found {
            // An attempt fails also because the last end has come: that is told as what it is.
            Err(Found::Nothing) => Look::Over(self.ends.reached(clock::now_ns()).unwrap_or(Found::Nothing)),
            Err(found) => Look::Over(found),
            Ok(_) => match self.ends.reached(now) {
                Some(found) => Look::Over(found),
                None if pauses => Look::Until(self.pause.min(end)),
                None => Look::Until(end),
            },
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let (gone, unwanted) = self.own.with(|present| {
            let gone = present.leave(number);
            let wanted = present.wanted_until() > 0;
            (gone, present.restoring.clone().filter(|_| !wanted))
        });
        drop(gone);
        // Nobody waits any more for what the hook restores.
        unwanted.iter().for_each(crate::call::abandon::Abandon::abandon);
    }
}

impl super::Present {
    fn leave(&mut self, number: u64) -> Option<Waiter> {
        let place = self.waiters.iter().position(|waiter| waiter.number == number)?;
        Some(self.waiters.swap_remove(place))
    }

    /// Until when somebody waits for the next binding, in ns; 0 if nobody does.
    pub(super) fn wanted_until(&self) -> u64 {
        self.waiters.iter().map(|waiter| waiter.until).max().unwrap_or(0)
    }
}

impl Frees for Resilient {
    fn free(&self, _: Option<u16>) -> Vec<Freed> {
        // They stay in the list until they have looked.
        let who = |waiter: &Waiter| Freed::Waiter(waiter.who.clone());
        self.with(|present| present.waiters.iter().map(who).collect())
    }
}

/// An alarm that rings no more once this is dropped.
struct Ringing(Option<Alarm>);

impl Ringing {
    fn set(&mut self, alarm: Alarm) {
        if let Some(earlier) = self.0.replace(alarm) {
            earlier.cancel();
        }
    }
}

impl Drop for Ringing {
    fn drop(&mut self) {
        if let Some(alarm) = self.0.take() {
            alarm.cancel();
        }
    }
}
