//! Replies that any thread may give, at any time after the server stub has returned.

use crate::call::answer::Results;
use crate::carried::CarriedError;
use crate::dispatch::async_handler::Later;
use crate::dispatch::deadline::Cancellation;
use std::fmt;
use std::marker::PhantomData;
use underpass_wire::{Carried, Encode};

/// The right and the duty to reply to one call with an `R`.
///
/// If it is dropped, the caller gets [`CallError::Dropped`](crate::CallError::Dropped). The call is
/// under way until then. If that takes longer than about a millisecond, its slot is given back, and
/// the reply is collected later.
pub struct DeferredReply<R> {
    later: Later,
    gives: PhantomData<fn(R)>,
}

/// A deferred reply with a `Result`, by the markers of its two types.
pub type DeferredResult<V, E> = DeferredReply<Result<<V as Carried>::Itself, <E as CarriedError>::Itself>>;

impl<R> fmt::Debug for DeferredReply<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeferredReply").field("cancellation", self.cancellation()).finish_non_exhaustive()
    }
}

impl<R> DeferredReply<R> {
    pub(crate) fn new(mut later: Later) -> Self {
        later.starts();
        Self { later, gives: PhantomData }
    }

    /// How long the caller wants the reply.
    pub fn cancellation(&self) -> &Cancellation {
        self.later.cancellation()
    }
}

impl<R: Encode + Results + Send + 'static> DeferredReply<R> {
    /// Replies. If the caller has given up meanwhile, the result is discarded.
    pub fn give(self, result: R) {
        self.later.reply(Ok(result));
    }
}
