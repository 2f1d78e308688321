//! Calls whose handlers are futures. They run on an executor that the user gives, and the reply is
//! posted when they end.
//!
//! Each such call has one [`Later`], which goes with its handler wherever the executor takes that.
//! It replies when the handler has ended, and also if the handler panicked or was dropped. So each
//! call has one reply, whatever the executor does. If an executor keeps a handler for ever without
//! polling it, the caller waits for ever.

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

/// The handler of one call, for an executor to run. It is the argument of [`Spawn`].
pub type Handler = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts handlers on an executor.
pub type Spawn = dyn Fn(Handler) + Send + Sync;

/// The right and the duty to reply to one call.
#[derive(Debug)]
pub(crate) struct Later {
    end: Arc<ServerEnd>,
    slot: u16,
    /// What the handler knows of its caller's deadline and cancellation.
    cancellation: Cancellation,
    started: bool,
    answered: bool,
}

impl Later {
    /// For a call that the calling thread dispatches.
    pub(crate) fn new(end: Arc<ServerEnd>, slot: u16) -> Self {
        let cancellation = Cancellation::of_call(&end, slot);
        Self { end, slot, cancellation, started: false, answered: false }
    }

    /// Runs `handler`, and replies to the call.
    pub(crate) async fn run<R: Encode>(mut self, handler: impl Future<Output = R> + Send) {
        let mut handler = pin!(handler);
        let record = self.end.family().record().clone();
        let outcome = poll_fn(|cx| {
            self.started = true;
            // A panic stops here: it must not harm the executor.
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
            // Nobody wants the result. The end of the call is counted.
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
