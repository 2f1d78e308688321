//! Waits of async tasks.

use crate::domain::{Enrollment, LocalDomain, queue_of};
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use underpass_threads::critical;

/// The waker of the task that has a waiter, while it waits.
#[derive(Debug, Default)]
pub(crate) struct TaskWaker(Mutex<Option<Waker>>);

impl TaskWaker {
    fn place(&self) -> MutexGuard<'_, Option<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn exchange(&self, waker: Option<Waker>) -> Option<Waker> {
        // The holder of the lock keeps its processor. No waker is woken or dropped meanwhile.
        let _held = critical();
        std::mem::replace(&mut *self.place(), waker)
    }

    /// Wakes the task, if there is one.
    pub(crate) fn wake(&self) {
        if let Some(waker) = self.exchange(None) {
            waker.wake();
        }
    }

    pub(crate) fn set(&self, waker: &Waker) {
        drop(self.exchange(Some(waker.clone())));
    }

    pub(crate) fn clear(&self) {
        drop(self.exchange(None));
    }
}

/// A task's wait in the queue of one object. If it is dropped after it was taken out, `pass_on` is
/// called: the wake-up was for another one.
pub(crate) struct QueuedTask<'a, F: Fn()> {
    domain: &'a LocalDomain,
    object: usize,
    ticket: Option<u64>,
    enrolled: Option<Enrollment<'a>>,
    /// It was taken out, at some time.
    taken: bool,
    pass_on: F,
}

impl<'a, F: Fn()> QueuedTask<'a, F> {
    /// It waits in no queue yet.
    pub(crate) fn new(domain: &'a LocalDomain, object: usize, pass_on: F) -> Self {
        Self { domain, object, ticket: None, enrolled: None, taken: false, pass_on }
    }

    pub(crate) fn is_enrolled(&self) -> bool {
        self.enrolled.is_some()
    }

    /// E1 to E4. If all waiters of this domain are taken, the task gives way to others and is not
    /// enrolled: it looks again at once.
    pub(crate) async fn enroll(&mut self) {
        let ticket = *self.ticket.get_or_insert_with(|| self.domain.ticket(self.object));
        self.enrolled = self.domain.enroll(queue_of(self.object), ticket);
        let mut gave_way = self.enrolled.is_some();
        poll_fn(|context| match std::mem::replace(&mut gave_way, true) {
            true => Poll::Ready(()),
            false => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await;
    }

    /// E6 and E7: until the task is to look again. It is not enrolled then.
    pub(crate) async fn told(&mut self) {
        poll_fn(|context| match &self.enrolled {
            Some(enrolled) if !enrolled.is_told(context.waker()) => Poll::Pending,
            _ => Poll::Ready(()),
        })
        .await;
        self.withdraw();
    }

    fn withdraw(&mut self) {
        if let Some(enrolled) = self.enrolled.take() {
            self.taken |= enrolled.leave();
        }
    }

    /// The wait is over. `used`: with what it was woken for.
    pub(crate) fn leave(mut self, used: bool) {
        self.withdraw();
        self.taken &= !used;
    }
}

impl<F: Fn()> Drop for QueuedTask<'_, F> {
    fn drop(&mut self) {
        self.withdraw();
        if self.taken {
            (self.pass_on)();
        }
    }
}
