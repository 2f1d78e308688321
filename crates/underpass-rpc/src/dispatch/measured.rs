//! Server stubs whose calls are measured.
//!
//! The stub of a measured export is wrapped. An export that is not measured has no wrapper, and
//! costs nothing. Calls that are answered later are counted where they are answered: each takes a
//! [`MeasuredAnswer`] along.

use crate::binding::implementation::Implementation;
use crate::dispatch::detached_call::{DetachedCall, ProcedureCall as _};
use crate::dispatch::incoming::{Dispatch, IncomingCall, Refused, Replied, Status};
use crate::metrics::kind::{EndKind, FailureKind};
use crate::metrics::meter::Meter;
use crate::payload::interfaces::WITH_INTERFACES;
use crate::payload::prefix::WITH_PREFIX;
use std::any::Any;
use std::mem::forget;
use std::sync::Arc;
use underpass_channel::{Cell, Channel, PayloadPlace};
use underpass_os::clock;
use underpass_wire::Source as _;

/// A server stub whose calls are measured.
pub(crate) struct MeasuredDispatch {
    inner: Arc<dyn Dispatch>,
    meter: Arc<Meter>,
}

impl MeasuredDispatch {
    /// From now on `meter` counts the calls of this implementation that come over channels and from
    /// other machines.
    pub(crate) fn wrap(implementation: &mut Implementation, meter: Arc<Meter>) {
        let inner = implementation.stub.clone();
        implementation.stub = Arc::new(Self { inner, meter });
    }
}

/// A call that a stub runs. If it is dropped, the procedure has panicked.
struct Measuring<'a> {
    meter: &'a Meter,
    method: u16,
    began: u64,
    bytes_in: u64,
}

impl<'a> Measuring<'a> {
    #[inline]
    fn begin(meter: &'a Meter, method: u16, bytes_in: usize) -> Self {
        Self { meter, method, began: meter.begin(method), bytes_in: bytes_in as u64 }
    }

    #[inline]
    fn end(self, kind: EndKind, bytes_out: u64) {
        self.meter.end(self.method, self.began, kind, self.bytes_in, bytes_out);
        forget(self);
    }

    /// Somebody answers the call later.
    fn leave(self) {
        self.meter.received(self.method, self.bytes_in);
        forget(self);
    }
}

impl Drop for Measuring<'_> {
    #[cold]
    fn drop(&mut self) {
        let panicked = EndKind::Failed(FailureKind::Panicked);
        self.meter.end(self.method, self.began, panicked, self.bytes_in, 0);
    }
}

impl Dispatch for MeasuredDispatch {
    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), Refused> {
        let method = call.procedure();
        // A call with interfaces or a prefix is dispatched again once they are taken, and is
        // measured then.
        if method & (WITH_INTERFACES | WITH_PREFIX) != 0 {
            return self.inner.dispatch(call);
        }
        let measuring = Measuring::begin(&self.meter, method, call.left());
        let done = self.inner.dispatch(call);
        match (&done, call.replied) {
            (Ok(()), Replied::Yes) => {
                measuring.end(kind_of_reply(call.channel(), &call.reply), call.reply.length.into());
            }
            (Ok(()), Replied::Large { failed }) => measuring.end(returned(failed), call.length as u64),
            (Ok(()), Replied::Later) => measuring.leave(),
            // The caller is told that the procedure has panicked.
            (Ok(()), Replied::No | Replied::NoAndReads) => drop(measuring),
            (Err(refused), _) => measuring.end(EndKind::Failed(kind_of(refused.status)), 0),
        }
        done
    }

    fn dispatch_detached(&self, call: &mut DetachedCall) -> Result<(), Refused> {
        let measuring = Measuring::begin(&self.meter, call.procedure(), call.left());
        let done = self.inner.dispatch_detached(call);
        match (&done, call.result_bytes()) {
            (Ok(()), Some(bytes)) => measuring.end(returned(bytes.first() != Some(&0)), bytes.len() as u64),
            (Ok(()), None) => measuring.end(EndKind::Failed(FailureKind::Dropped), 0),
            (Err(refused), _) => measuring.end(EndKind::Failed(kind_of(refused.status)), 0),
        }
        done
    }

    fn local(self: Arc<Self>) -> Option<Box<dyn Any>> {
        self.inner.clone().local()
    }

    fn meter(&self) -> Option<&Arc<Meter>> {
        Some(&self.meter)
    }
}

/// How a method ended that has a result.
fn returned(failed: bool) -> EndKind {
    if failed { EndKind::ReturnedError } else { EndKind::Returned }
}

/// How a method ended, by the tag with which its reply begins.
#[inline]
fn kind_of_reply(channel: &Channel, reply: &Cell) -> EndKind {
    match reply.place {
        PayloadPlace::Inline => returned(reply.bytes().first() != Some(&0)),
        _ => kind_in_stack(channel, reply),
    }
}

/// The same, where the reply lies in the A-stack. A peer that changes it there falsifies the count
/// of its own call, and nothing else.
#[inline(never)]
fn kind_in_stack(channel: &Channel, reply: &Cell) -> EndKind {
    let mut tag = [0];
    let read = channel.stack_source(reply.slot(), reply.length as usize);
    let read = read.and_then(|mut source| source.take(&mut tag));
    returned(read.is_err() || tag != [0])
}

/// The kind of a call that is answered with this status and has no result. It is the one that its
/// client sees.
#[cold]
fn kind_of(status: Status) -> FailureKind {
    match status {
        Status::BadArguments => FailureKind::Decode,
        Status::NoResources | Status::NoRoomForResult => FailureKind::NoResources,
        Status::Unwanted | Status::Cancelled => FailureKind::Deadline,
        Status::Closed | Status::NoBinding => FailureKind::Closed,
        Status::NoProcedure => FailureKind::Unsupported,
        Status::Dropped | Status::DroppedUnstarted => FailureKind::Dropped,
        Status::Panicked | Status::Done | Status::DoneWithInterfaces | Status::Late => FailureKind::Panicked,
    }
}

/// A call was refused before its stub has seen it.
#[cold]
pub(crate) fn refused(call: &IncomingCall<'_>, status: Status) {
    if let Some(meter) = call.row.stub.meter() {
        let method = call.procedure() & !(WITH_INTERFACES | WITH_PREFIX);
        meter.end(method, 0, EndKind::Failed(kind_of(status)), call.left() as u64, 0);
    }
}

/// A call of a measured export that is answered later. It is counted when this is dropped.
#[derive(Debug)]
pub(crate) struct MeasuredAnswer {
    meter: Arc<Meter>,
    method: u16,
    /// When the call began, in ns. 0: it is not timed.
    began: u64,
    /// When the handler ended. 0: it has not, or the call is not timed.
    ended: u64,
    kind: EndKind,
    bytes_out: u64,
}

impl MeasuredAnswer {
    /// A call of `method` begins, if its export is measured.
    pub(crate) fn begin(stub: &dyn Dispatch, method: u16) -> Option<Box<Self>> {
        let meter = stub.meter()?.clone();
        let (began, kind) = (meter.begin_later(method), EndKind::Failed(FailureKind::Dropped));
        Some(Box::new(Self { meter, method, began, ended: 0, kind, bytes_out: 0 }))
    }

    fn ends(&mut self, kind: EndKind) {
        self.kind = kind;
        self.ended = if self.began == 0 { 0 } else { clock::now_ns() };
    }

    /// The handler has returned.
    pub(crate) fn returns(&mut self, failed: bool) {
        self.ends(returned(failed));
    }

    /// The handler has panicked.
    pub(crate) fn panics(&mut self) {
        self.ends(EndKind::Failed(FailureKind::Panicked));
    }

    /// The call is answered with this status, without a result.
    pub(crate) fn is_refused(&mut self, status: Status) {
        self.ends(EndKind::Failed(kind_of(status)));
    }

    /// The result of so many bytes was encoded for the caller.
    pub(crate) fn sends(&mut self, bytes: usize) {
        self.bytes_out = bytes as u64;
    }
}

impl Drop for MeasuredAnswer {
    fn drop(&mut self) {
        let took = (self.began != 0).then(|| match self.ended {
            0 => clock::now_ns().saturating_sub(self.began),
            ended => ended.saturating_sub(self.began),
        });
        self.meter.end_later(self.method, took, self.kind, self.bytes_out);
    }
}
