//! Calls whose handlers are futures. They run on an executor that the user gives, and the reply is
//! posted when they end.
//!
//! Each such call has one [`Later`], which goes with its handler wherever the executor takes that.
//! It replies when the handler has ended, and also if the handler panicked or was dropped. So each
//! call has one reply, whatever the executor does. If an executor keeps a handler for ever without
//! polling it, the caller waits for ever.
//!
//! If the caller gives up or its deadline passes, the handler's future is dropped when the executor
//! polls it next. It is woken for that.

use crate::binding::peer::within_binding;
use crate::binding::row::BindingRow;
use crate::call::answer::Results;
use crate::control::timer::{self, ClerkTimer};
use crate::dispatch::deadline::Cancellation;
use crate::dispatch::incoming::{Refused, Status};
use crate::dispatch::late::AsyncCall;
use crate::dispatch::late::signal::SignalWatch;
use crate::dispatch::measured::MeasuredAnswer;
use crate::dispatch::server::ServerEnd;
use crate::trace_context::{TraceContext, within};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::thread;
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
    call: Arc<AsyncCall>,
    /// What the handler knows of its caller's deadline and cancellation. Made when it is first
    /// asked for: few that reply later ask.
    cancellation: OnceLock<Box<Cancellation>>,
    watch: SignalWatch,
    /// Wakes the handler at the deadline.
    timer: Option<ClerkTimer>,
    started: bool,
    answered: bool,
    /// That of the call.
    context: Option<Box<TraceContext>>,
    /// Counts the call, if its export is measured.
    measured: Option<Box<MeasuredAnswer>>,
}

impl Later {
    /// For a call over `row` that the calling thread dispatches. `keeps_slot`: its handler reads
    /// where the client wrote, so that the slot can't be given back before the end.
    pub(crate) fn new(
        end: Arc<ServerEnd>,
        row: Arc<BindingRow>,
        slot: u16,
        keeps_slot: bool,
        measured: Option<Box<MeasuredAnswer>>,
    ) -> Self {
        let call = end.async_call_begins(row, slot, keeps_slot);
        let cancellation = Cancellation::of_bounded(&call).map(Box::new);
        let cancellation = cancellation.map_or_else(OnceLock::new, OnceLock::from);
        let (watch, timer) = (SignalWatch::default(), None);
        let context = TraceContext::current().map(Box::new);
        Self { end, call, cancellation, watch, timer, started: false, answered: false, context, measured }
    }

    /// Runs `handler`, and replies to the call.
    pub(crate) async fn run<R>(mut self, handler: impl Future<Output = R> + Send)
    where
        R: Encode + Results + Send + 'static,
    {
        // `None` once it was dropped.
        let mut handler = pin!(Some(handler));
        let context = self.context.take();
        let (record, cancellation) = (self.call.row().record().clone(), self.cancellation().clone());
        let outcome = poll_fn(|cx| {
            self.started = true;
            // A panic stops here: it must not harm the executor.
            let poll = || {
                let _within = within_binding(&record);
                let poll = || {
                    cancellation.poll(|| {
                        let poll = match cancellation.is_unwanted() {
                            true => Poll::Pending,
                            false => handler
                                .as_mut()
                                .as_pin_mut()
                                .map_or(Poll::Pending, |handler| handler.poll(cx)),
                        };
                        if poll.is_pending() && self.is_unwanted_from_now(cx) {
                            handler.set(None);
                            return Poll::Ready(None);
                        }
                        poll.map(Some)
                    })
                };
                within(context.as_deref(), poll)
            };
            match catch_unwind(AssertUnwindSafe(poll)) {
                Ok(Poll::Ready(result)) => Poll::Ready(Ok(result)),
                Ok(Poll::Pending) => Poll::Pending,
                Err(panic) => Poll::Ready(Err(panic)),
            }
        })
        .await;
        match outcome {
            Ok(Some(result)) => self.reply(Ok(result)),
            Ok(None) => self.reply_without_result(Status::Cancelled),
            Err(panic) => self.reply::<R>(Err(panic)),
        }
    }

    /// The handler waits. Sees to it that it is woken when nobody wants its result any more, and
    /// returns whether that is so already.
    fn is_unwanted_from_now(&mut self, cx: &Context<'_>) -> bool {
        self.watch.wakes(&self.call.signal, cx.waker());
        if self.timer.is_none()
            && let Some(deadline) = self.cancellation().deadline_ns()
        {
            let call = self.call.clone();
            self.timer = Some(timer::set(deadline, move || call.signal.wake()));
        }
        self.cancellation().is_unwanted()
    }

    /// Replies with the result, or says that the handler has panicked. Any thread may do so.
    pub(crate) fn reply<R: Encode + Results + Send + 'static>(mut self, outcome: thread::Result<R>) {
        let mut measured = self.measured.take();
        if let Some(measured) = &mut measured {
            match &outcome {
                Ok(result) => measured.returns(result.is_failure()),
                Err(_) => measured.panics(),
            }
        }
        if self.end.is_closed() || self.end.is_closed_row(self.call.row().tag()) {
            // Nobody wants the result. The end of the call is counted.
            return self.reply_without_result(Status::Dropped);
        }
        self.answered = true;
        self.end.async_call_ends(&self.call, move |end, slot| encoded(end, slot, outcome, measured));
    }

    fn reply_without_result(mut self, status: Status) {
        self.answered = true;
        self.measured.iter_mut().for_each(|measured| measured.is_refused(status));
        self.end.async_call_ends(&self.call, move |_, slot| Cell::new(slot, status as u16));
    }

    /// The handler has begun, as far as its caller can tell.
    pub(crate) fn starts(&mut self) {
        self.started = true;
    }

    /// What the handler knows of its caller's deadline and cancellation.
    pub(crate) fn cancellation(&self) -> &Cancellation {
        self.cancellation.get_or_init(|| Box::new(Cancellation::of_async(&self.end, &self.call)))
    }
}

fn encoded<R: Encode>(
    end: &ServerEnd,
    slot: u16,
    outcome: thread::Result<R>,
    mut measured: Option<Box<MeasuredAnswer>>,
) -> Cell {
    let encoded = outcome.and_then(|result| {
        catch_unwind(AssertUnwindSafe(|| {
            let mut reply = Cell::new(slot, Status::Done as u16);
            end.encode(&mut reply, &result)?;
            measured.iter_mut().for_each(|measured| measured.sends(result.size()));
            Ok(reply)
        }))
    });
    match encoded {
        Ok(Ok(reply)) => reply,
        Ok(Err(Refused { status, why })) => {
            measured.iter_mut().for_each(|measured| measured.is_refused(status));
            end.refuse(slot, status, &why)
        }
        Err(panic) => {
            measured.iter_mut().for_each(|measured| measured.panics());
            end.refuse(slot, Status::Panicked, panic_message(&*panic))
        }
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        self.watch.ends(&self.call.signal);
        if let Some(timer) = self.timer.take() {
            timer.cancel();
        }
        if !self.answered {
            let status = if self.started { Status::Dropped } else { Status::DroppedUnstarted };
            self.measured.iter_mut().for_each(|measured| measured.is_refused(status));
            self.end.async_call_ends(&self.call, move |_, slot| Cell::new(slot, status as u16));
        }
    }
}
