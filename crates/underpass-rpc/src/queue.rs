//! Callers that wait for a slot, first come, first served.

use crate::summons::Summons;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use underpass_processor::Line;
use underpass_seam::atomic::{AtomicU32, Ordering};
use underpass_threads::{Latch, wait_on};

/// Waiters for what others give back.
///
/// No give-back is missed: a waiter enters (`waiting`, SeqCst) before it tries; who gives back does so (SeqCst) before it
/// looks at `waiting` (SeqCst). In their one order either the try finds the thing, or the look finds the waiter.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: AtomicU32,
    latches: Mutex<VecDeque<Waiter>>,
}

/// Who waits.
#[derive(Debug)]
enum Waiter {
    Thread(Arc<Latch>),
    Task(Arc<Summons>),
}

impl Waiter {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Thread(one), Self::Thread(other)) => Arc::ptr_eq(one, other),
            (Self::Task(one), Self::Task(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    fn call(&self) {
        match self {
            Self::Thread(latch) => latch.open(),
            Self::Task(summons) => summons.call(),
        }
    }
}

impl Queue {
    /// Tries until `attempt` gives something; nothing if `deadline` passes first. Polls `line` meanwhile.
    pub(crate) fn wait<T>(
        &self,
        deadline: Option<u64>,
        line: &dyn Line,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        loop {
            let latch = Arc::new(Latch::default());
            self.enter(false, Waiter::Thread(latch.clone()));
            if let Some(got) = attempt() {
                self.leave(&Waiter::Thread(latch));
                return Some(got);
            }
            if !wait_on(&*latch, Some(line), deadline) {
                self.leave(&Waiter::Thread(latch));
                return None;
            }
            if let Some(got) = attempt() {
                return Some(got);
            }
        }
    }

    /// A task waits, before all others if it has been called once and found nothing. It attempts now, and whenever it is woken.
    pub(crate) fn enter_task(&self, first: bool, waker: &Waker) -> Arc<Summons> {
        let summons = Arc::new(Summons::new(waker.clone()));
        self.enter(first, Waiter::Task(summons.clone()));
        summons
    }

    /// It waits no more.
    pub(crate) fn leave_task(&self, summons: Arc<Summons>) {
        self.leave(&Waiter::Task(summons));
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

    /// A waiter goes without having been called; if it was called all the same, the call is passed on.
    fn leave(&self, waiter: &Waiter) {
        let mut latches = self.latches.lock().unwrap_or_else(PoisonError::into_inner);
        match latches.iter().position(|other| other.is(waiter)) {
            Some(place) => {
                latches.remove(place);
                self.waiting.fetch_sub(1, Ordering::SeqCst);
            }
            None => {
                drop(latches);
                self.next();
            }
        }
    }

    /// Something was given back: calls the first waiter.
    #[inline]
    pub(crate) fn next(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.call_one();
        }
    }

    #[cold]
    fn call_one(&self) -> bool {
        let first = self.latches.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        if let Some(waiter) = &first {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            waiter.call();
        }
        first.is_some()
    }

    /// Calls every waiter.
    pub(crate) fn all(&self) {
        while self.call_one() {}
    }
}
