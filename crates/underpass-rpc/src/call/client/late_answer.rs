//! How callers wait for late answers, and read them.

use super::late_calls::{Collected, LateLookup};
use super::late_future::LateFuture;
use super::{ClientEnd, ClientRow};
use crate::call::abandon::UnderWay;
use crate::call::answer::{Answer, Read, Results};
use crate::call::slot_queue::Who;
use crate::error::{CallError, Outcome};
use std::sync::Arc;
use underpass_channel::Cell;
use underpass_threads::{Latch, Woken, outside_section, wait_on};
use underpass_wire::Decode;

/// The answer to a late call.
pub(crate) struct LateAnswer<'a> {
    reply: Cell,
    answer: Answer<'a>,
}

/// Why a wait for a late answer has ended without one.
enum Missed {
    /// The binding has ended.
    Closed,
    Freed(Woken),
}

impl ClientEnd {
    pub(super) fn late_answer<'a>(
        &'a self,
        row: &'a ClientRow,
        Collected { reply, slot }: Collected,
    ) -> LateAnswer<'a> {
        let number = reply.slot();
        LateAnswer { reply, answer: Answer::of_late(self, row, slot, number) }
    }

    /// Reads a late answer.
    #[cold]
    pub(crate) fn read_late<R: Results + Decode>(&self, late: &LateAnswer<'_>) -> Read<R> {
        late.answer.read_late::<R>(&late.reply)
    }

    /// The call of `answer` is late: enters it, and gives its slot back. Returns its number.
    fn begin_to_wait_late(
        &self,
        answer: &Answer<'_>,
        under_way: Option<&UnderWay>,
    ) -> Result<u64, Box<CallError>> {
        let number = self.enter_late_call(answer.linkage())?;
        // From here on the slot may be another's.
        under_way.inspect(|call| call.has_none());
        self.collect(answer.slot.take());
        Ok(number)
    }

    /// The call of `answer` is late: the calling thread waits for what is collected.
    #[cold]
    pub(crate) fn late_answer_of_thread<'a>(
        &'a self,
        row: &'a ClientRow,
        answer: &Answer<'_>,
        deadline: Option<u64>,
        under_way: Option<&UnderWay>,
    ) -> Result<LateAnswer<'a>, Box<CallError>> {
        let number = self.begin_to_wait_late(answer, under_way)?;
        let waited = outside_section(|| {
            loop {
                let latch = Arc::new(Latch::default());
                match self.find_late_answer(number, Who::Thread(latch.clone())) {
                    LateLookup::Answer(answer) => return Ok(answer),
                    LateLookup::Lost => return Err(Missed::Closed),
                    LateLookup::Nothing if row.is_closed() => return Err(Missed::Closed),
                    // After the waiter was entered, as in `wait`.
                    LateLookup::Nothing if under_way.is_some_and(UnderWay::is_freed) => {
                        return Err(Missed::Freed(Woken::Cancelled));
                    }
                    LateLookup::Nothing => {}
                }
                match wait_on(&*latch, Some(self), deadline) {
                    Woken::Woken => {}
                    why => return Err(Missed::Freed(why)),
                }
            }
        });
        // This thread slept on the line without a call of its own: a doorbell that it took may have
        // been for another caller.
        if self.slots.leased() > 0 {
            self.rearm();
        }
        match waited {
            Ok(collected) => Ok(self.late_answer(row, collected)),
            Err(Missed::Closed) => self.lost_late_call(row, number),
            Err(Missed::Freed(why)) => self.gives_up_late(row, number, under_way, why),
        }
    }

    /// The same for a task.
    #[cold]
    pub(super) async fn late_answer_of_task<'a>(
        &'a self,
        answer: Answer<'a>,
        deadline: Option<u64>,
        under_way: Option<&'a UnderWay>,
    ) -> Result<LateAnswer<'a>, Box<CallError>> {
        let number = self.begin_to_wait_late(&answer, under_way)?;
        LateFuture::new(self, answer.row, number, deadline, under_way).await
    }

    /// The binding has ended. An answer that came before counts.
    #[cold]
    pub(super) fn lost_late_call<'a>(
        &'a self,
        row: &'a ClientRow,
        number: u64,
    ) -> Result<LateAnswer<'a>, Box<CallError>> {
        match self.give_up_late_call(number, false) {
            Some(collected) => Ok(self.late_answer(row, collected)),
            None if row.is_closed() => Err(row.reason(Outcome::Unknown)),
            None => Err(Box::new(self.violated("a late call that was answered as another"))),
        }
    }

    /// Gives up a late call whose wait ended as `why`. If its answer has come, returns that.
    #[cold]
    pub(super) fn gives_up_late<'a>(
        &'a self,
        row: &'a ClientRow,
        number: u64,
        under_way: Option<&UnderWay>,
        why: Woken,
    ) -> Result<LateAnswer<'a>, Box<CallError>> {
        let freed = under_way.and_then(UnderWay::freed);
        let error = freed.unwrap_or(match why {
            Woken::Cancelled => CallError::Cancelled,
            Woken::Late | Woken::Woken => CallError::Deadline,
        });
        // At a deadline the server knows by itself.
        let tell = freed.is_some() || why != Woken::Late;
        match self.give_up_late_call(number, tell) {
            Some(collected) => Ok(self.late_answer(row, collected)),
            None => Err(Box::new(error(Outcome::Unknown))),
        }
    }

    /// The future of the call of `answer`, which is late, is dropped.
    #[cold]
    pub(super) fn drop_late_call(&self, answer: &Answer<'_>, under_way: Option<&UnderWay>) {
        if let Ok(number) = self.begin_to_wait_late(answer, under_way)
            && let Some(collected) = self.give_up_late_call(number, true)
        {
            self.drop_answer(collected);
        }
    }
}
