//! Waits, as a task, for a late answer.

use super::late_answer::LateAnswer;
use super::late_calls::LateLookup;
use super::{ClientEnd, ClientRow};
use crate::call::abandon::UnderWay;
use crate::call::slot_queue::Who;
use crate::call::task_wakeup::{TaskWakeup, wake_task};
use crate::control::timer::{self, ClerkTimer};
use crate::error::CallError;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use underpass_os::{clock, fork};
use underpass_threads::Woken;

/// Its output is the answer, or the reason why there is none. If it is dropped before its end, it
/// gives the call up.
pub(super) struct LateFuture<'a> {
    end: &'a ClientEnd,
    row: &'a ClientRow,
    /// The number of the call. `None` once it is settled.
    number: Option<u64>,
    deadline: Option<u64>,
    under_way: Option<&'a UnderWay>,
    /// Its place in the table, once it has had one.
    place: Option<Arc<TaskWakeup>>,
    timer: Option<ClerkTimer>,
}

impl<'a> LateFuture<'a> {
    pub(super) fn new(
        end: &'a ClientEnd,
        row: &'a ClientRow,
        number: u64,
        deadline: Option<u64>,
        under_way: Option<&'a UnderWay>,
    ) -> Self {
        Self { end, row, number: Some(number), deadline, under_way, place: None, timer: None }
    }

    /// Waits no more. Returns the number if the call is not settled.
    fn leave(&mut self) -> Option<u64> {
        if self.place.take().is_some() && !fork::is_forked() {
            self.end.attended();
        }
        if let Some(timer) = self.timer.take() {
            timer.cancel();
        }
        self.number.take()
    }

    fn ring_in_time(&mut self, cx: &Context<'_>) {
        if let Some(timer) = self.timer.take() {
            timer.cancel();
        }
        let waker = self.deadline.map(|deadline| (deadline, cx.waker().clone()));
        self.timer = waker.map(|(deadline, waker)| timer::set(deadline, || wake_task(waker)));
    }

    /// Enters the table with a new place.
    fn enter(&mut self, number: u64, cx: &Context<'_>) -> LateLookup {
        let place = Arc::new(TaskWakeup::new(cx.waker().clone()));
        if self.place.replace(place.clone()).is_none() {
            self.end.attend();
        }
        self.end.find_late_answer(number, Who::Task(place))
    }
}

impl<'a> Future for LateFuture<'a> {
    type Output = Result<LateAnswer<'a>, Box<CallError>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if fork::is_forked() {
            return Poll::Ready(Err(Box::new(CallError::Forked)));
        }
        let (end, row, under_way) = (self.end, self.row, self.under_way);
        let number = self.number.expect("a future is not polled after its end");
        loop {
            if self.place.as_ref().is_none_or(|place| !place.waits(cx.waker())) {
                match self.enter(number, cx) {
                    LateLookup::Answer(collected) => {
                        self.leave();
                        return Poll::Ready(Ok(end.late_answer(row, collected)));
                    }
                    LateLookup::Nothing if !row.is_closed() => {}
                    LateLookup::Nothing | LateLookup::Lost => {
                        self.leave();
                        return Poll::Ready(end.lost_late_call(row, number));
                    }
                }
            }
            let late = self.deadline.is_some_and(|deadline| deadline <= clock::now_ns());
            if late || under_way.is_some_and(UnderWay::is_freed) {
                self.leave();
                let why = if late { Woken::Late } else { Woken::Cancelled };
                return Poll::Ready(end.gives_up_late(row, number, under_way, why));
            }
            self.ring_in_time(cx);
            end.arm();
            if self.place.as_ref().is_some_and(|place| place.waits(cx.waker())) {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for LateFuture<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.leave()
            && !fork::is_forked()
            && let Some(collected) = self.end.give_up_late_call(number, true)
        {
            self.end.drop_answer(collected);
        }
    }
}
