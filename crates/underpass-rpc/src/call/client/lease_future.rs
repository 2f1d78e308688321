//! Waits, as a task, for a slot when all are leased.

use super::{ClientEnd, ClientRow};
use crate::call::abandon::UnderWay;
use crate::call::leasing::Leasing;
use crate::call::task_wakeup::{TaskWakeup, wake_task};
use crate::control::timer::ClerkTimer;
use crate::error::{CallError, Outcome};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use underpass_channel::Slot;
use underpass_os::{clock, fork};

/// Its output is a slot, or the reason why there is none. If it is dropped before its end, the next
/// waiter is served.
pub(super) struct LeaseFuture<'a> {
    end: &'a ClientEnd,
    row: &'a ClientRow,
    leasing: Leasing,
    deadline: Option<u64>,
    under_way: Option<&'a UnderWay>,
    /// Its place in the queue, once it has had one.
    place: Option<Arc<TaskWakeup>>,
    timer: Option<ClerkTimer>,
}

impl<'a> LeaseFuture<'a> {
    pub(super) fn new(
        end: &'a ClientEnd,
        row: &'a ClientRow,
        leasing: Leasing,
        deadline: Option<u64>,
        under_way: Option<&'a UnderWay>,
    ) -> Self {
        Self { end, row, leasing, deadline, under_way, place: None, timer: None }
    }

    fn leave(&mut self) {
        if let Some(place) = self.place.take().filter(|_| !fork::is_forked()) {
            let end = self.end;
            end.queue.leave_task(place, |wish| {
                let _inside = end.lock();
                end.has_room(wish)
            });
            self.end.attended();
        }
        if let Some(timer) = self.timer.take() {
            timer.cancel();
        }
    }

    /// Enters the queue and then tries to lease. This order matters: see
    /// [`SlotQueue`](crate::call::slot_queue::SlotQueue).
    fn enter(&mut self, cx: &Context<'_>) -> Option<Slot> {
        let called = self.place.take().is_some();
        self.place = Some(self.end.queue.enter_task(called, self.leasing.wish(self.row.tag()), cx.waker()));
        if !called {
            self.end.attend();
        }
        self.end.try_lease(self.row, self.leasing)
    }

    fn ring_in_time(&mut self, cx: &Context<'_>) {
        if let Some(timer) = self.timer.take() {
            timer.cancel();
        }
        let waker = self.deadline.map(|deadline| (deadline, cx.waker().clone()));
        self.timer = waker.map(|(deadline, waker)| crate::control::timer::set(deadline, || wake_task(waker)));
    }
}

impl Future for LeaseFuture<'_> {
    type Output = Result<Slot, Box<CallError>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            if self.end.is_over(self.row) {
                return Poll::Ready(Err(self.row.reason(Outcome::NotStarted)));
            }
            if let Some(error) = self.under_way.and_then(UnderWay::freed) {
                return Poll::Ready(Err(Box::new(error(Outcome::NotStarted))));
            }
            if self.deadline.is_some_and(|deadline| deadline <= clock::now_ns()) {
                return Poll::Ready(Err(Box::new(CallError::Overloaded)));
            }
            if !self.leasing.waits {
                return Poll::Ready(Err(Box::new(CallError::Overloaded)));
            }
            if self.place.as_ref().is_none_or(|place| !place.waits(cx.waker())) {
                match self.enter(cx) {
                    Some(slot) => {
                        self.leave();
                        return Poll::Ready(Ok(slot));
                    }
                    None => continue,
                }
            }
            self.ring_in_time(cx);
            // Slots may be leased by calls for which nobody waits any more.
            self.end.arm();
            if self.place.as_ref().is_some_and(|place| place.waits(cx.waker())) {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for LeaseFuture<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}
