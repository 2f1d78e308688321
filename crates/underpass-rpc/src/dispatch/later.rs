//! Calls whose handlers are futures: they run on an executor that the user gives, and the reply is
//! posted when they end.
//!
//! A call that was handed over has one [`Later`], which goes with its handler wherever the executor
//! takes that: it answers when the handler has ended, and says so if the handler panicked or was
//! dropped. So each call has one reply, whatever the executor does; one that keeps a handler for
//! ever without polling it keeps its caller waiting.

use crate::binding::peer::within_binding;
use crate::dispatch::deadline::Cancellation;
use crate::dispatch::incoming::{Refused, Status};
use crate::dispatch::server::ServerEnd;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use underpass_channel::Cell;
use underpass_threads::panic_message;
use underpass_wire::Encode;

/// The handler of one call, for an executor to run: what [`Spawn`] is given.
pub type Handler = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts handlers on an executor.
pub type Spawn = dyn Fn(Handler) + Send + Sync;

/// The right and the duty to answer one call.
#[derive(Debug)]
pub(crate) struct Later {
    end: Arc<ServerEnd>,
    slot: u16,
    /// The view of its caller that the handler has.
    cancellation: Cancellation,
    started: bool,
    answered: bool,
}

impl Later {
    /// That of a call which the calling thread dispatches.
    pub(crate) fn new(end: Arc<ServerEnd>, slot: u16) -> Self {
        let cancellation = Cancellation::of_call(&end, slot);
        Self { end, slot, cancellation, started: false, answered: false }
    }

    /// Runs `handler`, and answers the call.
    pub(crate) async fn run<R: Encode>(mut self, handler: impl Future<Output = R> + Send) {
        let mut handler = pin!(handler);
        let record = self.end.family().record().clone();
        let outcome = poll_fn(|cx| {
            self.started = true;
            // A panic stops here: the executor is not to be harmed by it.
            let poll = || {
                let _within = within_binding(&record);
                self.cancellation.poll(|| handler.as_mut().poll(cx))
            };
            match catch_unwind(AssertUnwindSafe(poll)) {
                Ok(Poll::Ready(result)) => Poll::Ready(Ok(result)),
                Ok(Poll::Pending) => Poll::Pending,
                Err(panic) => Poll::Ready(Err(panic)),
            }
        })
        .await;
        let reply = match self.end.is_closed() {
            // Nobody wants the result; that the call has ended is counted.
            true => Cell::new(self.slot, Status::Dropped as u16),
            false => self.encoded(outcome),
        };
        self.answered = true;
        self.end.answer(&reply);
    }

    fn encoded<R: Encode>(&self, outcome: std::thread::Result<R>) -> Cell {
        let encoded = outcome.and_then(|result| {
            catch_unwind(AssertUnwindSafe(|| {
                let mut reply = Cell::new(self.slot, Status::Done as u16);
                self.end.encode(&mut reply, &result).map(|_| reply)
            }))
        });
        match encoded {
            Ok(Ok(reply)) => reply,
            Ok(Err(Refused { status, why })) => self.end.refuse(self.slot, status, &why),
            Err(panic) => self.end.refuse(self.slot, Status::Panicked, panic_message(&*panic)),
        }
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let status = if self.started { Status::Dropped } else { Status::DroppedUnstarted };
        self.end.answer(&self.end.refuse(self.slot, status, ""));
    }
}
