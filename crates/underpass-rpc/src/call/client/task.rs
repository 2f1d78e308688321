//! A call by an async task, under any executor.
//!
//! The call is sent at the first poll. While the task is polled it looks for its own reply, and
//! takes those of others. It lets other tasks of its executor run a few times before it relies on
//! being woken (see `waker_table.rs`). Dropping the future abandons the call.

use super::calling::Settled;
use super::lease_future::LeaseFuture;
use super::{CallTerms, ClientEnd, ClientRow};
use crate::call::abandon::UnderWay;
use crate::call::answer::{Answer, Results};
use crate::call::task_wakeup::wake_task;
use crate::control::timer::{self, ClerkTimer};
use crate::dispatch::incoming::Status;
use crate::error::CallError;
use crate::payload::prefix::{CallPrefix, Prefixed, WITH_PREFIX};
use std::pin::Pin;
use std::task::{Context, Poll};
use underpass_channel::{PayloadPlace, Slot};
use underpass_os::{clock, fork};
use underpass_threads::Woken;
use underpass_wire::{Decode, Encode};

/// How often a task looks for its reply in a row if no other call is under way: about 2 µs.
const LOOKS: u32 = 64;
/// How often a task has itself polled again at once before it waits to be woken.
const ROUNDS: u8 = 2;
/// For how long it does so if no other call is under way, and that has found replies lately: about
/// as long as it takes to wake an executor. Its other tasks run in between.
const ALONE_NS: u64 = 50_000;

impl ClientEnd {
    /// As [`call`](Self::call), for a task.
    pub(crate) async fn call_from_task<A: Encode + ?Sized, R: Decode + Results<Value: Decode>>(
        &self,
        row: &ClientRow,
        procedure: u16,
        arguments: &A,
        terms: &CallTerms,
        failed: impl FnOnce(CallError) -> R::Error,
    ) -> Result<R::Value, R::Error> {
        match CallPrefix::of_thread().filter(|_| self.shared.rows.takes_prefixes()) {
            None => self.exchange_from_task::<A, R>(row, procedure, arguments, terms, failed).await,
            Some(prefix) => {
                // Apart, so that the futures of other calls are no larger.
                let arguments = Prefixed { prefix: &prefix, arguments };
                let procedure = procedure | WITH_PREFIX;
                let call = self.exchange_from_task::<_, R>(row, procedure, &arguments, terms, failed);
                Box::pin(call).await
            }
        }
    }

    async fn exchange_from_task<A: Encode + ?Sized, R: Decode + Results<Value: Decode>>(
        &self,
        row: &ClientRow,
        procedure: u16,
        arguments: &A,
        terms: &CallTerms,
        failed: impl FnOnce(CallError) -> R::Error,
    ) -> Result<R::Value, R::Error> {
        let end = self.nearest();
        let (deadline, under_way) = match end.bounds_of_task(terms) {
            Ok(bounds) => bounds,
            Err(error) => return Err(failed(*error)),
        };
        let under_way = under_way.as_ref();
        let slot = match end.lease_from_task(row, terms, deadline, under_way).await {
            Ok(slot) => slot,
            Err(error) => return Err(failed(*error)),
        };
        let away = || end.call_server();
        let settled = match end.send(row, slot, procedure, arguments, (deadline, under_way), away) {
            Ok(slot) => end.settled_from_task(row, slot, deadline, under_way).await,
            Err(error) => Err(error),
        };
        end.result_of::<R>(settled, failed)
    }

    /// Leases a slot, when one is free.
    async fn lease_from_task(
        &self,
        row: &ClientRow,
        terms: &CallTerms,
        deadline: Option<u64>,
        under_way: Option<&UnderWay>,
    ) -> Result<Slot, Box<CallError>> {
        let slot = if self.is_over(row) { None } else { self.try_lease(row, terms.leasing) };
        match slot {
            Some(slot) => Ok(slot),
            None => LeaseFuture::new(self, row, terms.leasing, deadline, under_way).await,
        }
    }

    /// Waits for the answer to a call that was sent.
    async fn settled_from_task<'a>(
        &'a self,
        row: &'a ClientRow,
        slot: Slot,
        deadline: Option<u64>,
        under_way: Option<&'a UnderWay>,
    ) -> Result<Settled<'a>, Box<CallError>> {
        let answer = Answer::new(self, row, slot, under_way);
        let pending =
            Pending { answer: Some(answer), deadline, under_way, rounds: 0, since: None, timer: None };
        let answer = pending.await?;
        if answer.linkage().late_reply().is_some() {
            return self.late_answer_of_task(answer, deadline, under_way).await.map(Settled::Late);
        }
        Ok(Settled::InSlot(answer))
    }

    /// The server has no processor that polls. A task has none to lend either, as its executor goes
    /// on with others. So the server is woken on a processor of its own.
    #[cold]
    pub(super) fn call_server(&self) {
        self.ring(self.channel.claim());
    }

    /// Takes all replies that have come.
    fn maintain(&self) -> bool {
        self.channel.receiving().pending() && self.take_what_came()
    }
}

/// A call that was sent. Its output is the answer, or the reason why there is none.
struct Pending<'a> {
    /// `None` once the call is settled.
    answer: Option<Answer<'a>>,
    deadline: Option<u64>,
    under_way: Option<&'a UnderWay>,
    rounds: u8,
    /// When it had itself polled again, after the first rounds.
    since: Option<u64>,
    timer: Option<ClerkTimer>,
}

impl<'a> Pending<'a> {
    /// Looks for the reply, for a moment.
    fn look(&self, answer: &Answer<'_>) -> bool {
        let (end, linkage) = (answer.end, answer.linkage());
        let in_a_row = self.rounds == 0 || self.since.is_some();
        let looks = if in_a_row && self.is_alone(answer) { LOOKS } else { 1 };
        (0..looks).any(|look| {
            if look > 0 {
                std::hint::spin_loop();
            }
            linkage.is_settled() || (end.maintain() && linkage.is_settled())
        })
    }

    /// Whether it pays to look several times: no other call is under way, the server may run
    /// beside this, and looks have found replies lately.
    fn is_alone(&self, answer: &Answer<'_>) -> bool {
        let end = answer.end;
        end.slots.leased() == 1 && end.placement.may_overlap && end.waker_table.trusts()
    }

    /// Whether the task is to be polled again at once.
    fn goes_on(&mut self) -> bool {
        if self.rounds < ROUNDS {
            self.rounds += 1;
            return true;
        }
        let answer = self.answer.as_ref().expect("a future is not polled after its end");
        if self.rounds > ROUNDS || !self.is_alone(answer) {
            return false;
        }
        let now = clock::now_ns();
        now - *self.since.get_or_insert(now) < ALONE_NS
    }

    /// The call is settled, or the task is freed.
    fn settled(&mut self) -> Poll<Result<Answer<'a>, Box<CallError>>> {
        if self.is_freed() {
            return Poll::Ready(self.give_up(Woken::Cancelled).expect("it has an answer or the want of one"));
        }
        if let Some(timer) = self.timer.take() {
            timer.cancel();
        }
        Poll::Ready(Ok(self.answer.take().expect("a future is not polled after its end")))
    }

    /// Whether the call was abandoned before its reply came.
    fn is_freed(&self) -> bool {
        self.under_way.is_some() && self.answer.as_ref().is_some_and(|answer| answer.linkage().is_freed())
    }

    /// Gives the call up, and returns what is known of it. If its reply has come, returns the
    /// answer.
    fn give_up(&mut self, why: Woken) -> Option<Result<Answer<'a>, Box<CallError>>> {
        if let Some(timer) = self.timer.take() {
            timer.cancel();
        }
        let mut answer = self.answer.take()?;
        let end = answer.end;
        end.unwatch(answer.number);
        let bounded = self.deadline.is_some() || self.under_way.is_some();
        Some(match end.give_up(&mut answer, bounded, self.under_way, why) {
            Some(error) => Err(error),
            None => Ok(answer),
        })
    }
}

impl<'a> Future for Pending<'a> {
    type Output = Result<Answer<'a>, Box<CallError>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if fork::is_forked() {
            return Poll::Ready(Err(Box::new(CallError::Forked)));
        }
        let answer = self.answer.as_ref().expect("a future is not polled after its end");
        let (end, number) = (answer.end, answer.number);
        if self.look(answer) {
            if self.rounds <= ROUNDS {
                end.waker_table.found(true);
            }
            return self.settled();
        }
        if self.deadline.is_some_and(|deadline| deadline <= clock::now_ns()) {
            return Poll::Ready(self.give_up(Woken::Late).expect("it has an answer or the want of one"));
        }
        // After `expect`: the abandoning thread marks the call first, and then looks for callers
        // that expect a reply.
        if self.rounds == 0 && self.under_way.is_some_and(UnderWay::is_freed) {
            return Poll::Ready(self.give_up(Woken::Cancelled).expect("it has an answer or the want of one"));
        }
        if self.goes_on() {
            // Other tasks run first. They may have calls to send, and they take all replies.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.rounds == ROUNDS {
            self.rounds += 1;
            self.since = None;
            end.waker_table.found(false);
        }
        if !end.watch(number, cx.waker()) {
            return self.settled();
        }
        if let Some(timer) = self.timer.take() {
            timer.cancel();
        }
        if let Some(deadline) = self.deadline {
            let waker = cx.waker().clone();
            self.timer = Some(timer::set(deadline, || wake_task(waker)));
        }
        end.arm();
        match end.linkage(number).is_settled() {
            true => self.settled(),
            false => Poll::Pending,
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if fork::is_forked() {
            return;
        }
        // The reply has come, and nobody reads it. Files that came along must not wait for another
        // call.
        let Some(Ok(answer)) = self.give_up(Woken::Cancelled) else { return };
        if answer.linkage().late_reply().is_some() {
            answer.end.drop_late_call(&answer, self.under_way);
        } else if let Some(reply) = answer.linkage().take() {
            if reply.what() == Status::DoneWithInterfaces as u16 {
                return answer.end.release_interfaces_of(&reply);
            }
            if reply.place != PayloadPlace::OutOfBand {
                return;
            }
            answer.end.mailbox().discard(answer.number);
            answer.end.count_entries(answer.end.mailbox().entries());
        }
    }
}
