//! The steps of [`ClientEnd::call`] one by one, for the benchmark that measures them. Each runs the
//! functions that `call` runs.

use super::{CallTerms, ClientEnd, ClientRow};
use crate::call::answer::{Answer, Landing, Results};
use crate::call::leasing::{AllLeased, Leasing};
use crate::call::waiting::AwaitedReply;
use crate::error::CallError;
use underpass_channel::Slot;
use underpass_wire::{Decode, Encode};

impl CallTerms {
    /// The terms of a call as a stub makes it first.
    pub(crate) fn plain() -> Self {
        let leasing = Leasing::new(AllLeased::default(), 0);
        Self { within: None, urgent: false, abandon: None, leasing }
    }
}

impl ClientEnd {
    /// Sends a call, and does not register the caller as one that will block. The server polls, so
    /// nothing is donated.
    #[inline(always)]
    pub(crate) fn send_step<A: Encode + ?Sized>(
        &self,
        row: &ClientRow,
        procedure: u16,
        arguments: &A,
    ) -> Result<Slot, Box<CallError>> {
        // Only the caller of an urgent call is never registered before it waits.
        let terms = CallTerms { urgent: true, ..CallTerms::plain() };
        Ok(self.nearest().begin(row, procedure, arguments, &terms, None, None)?.slot)
    }

    /// Takes the reply to the call of `slot`, the only one under way, and reads its result. A
    /// caller that polls for its own reply does the same.
    #[inline(always)]
    pub(crate) fn receive_step<R: Decode + Results<Value: Decode>>(
        &self,
        row: &ClientRow,
        slot: Slot,
        failed: impl FnOnce(CallError) -> R::Error,
    ) -> Result<R::Value, R::Error> {
        let (mut answer, mut landing) = (Answer::new(self, row, slot, None), Landing::new());
        self.look_for(&AwaitedReply { answer: &answer, landing: Some(&landing) });
        answer.result::<R>(&mut landing, failed)
    }
}
