//! A call as the server stub sees it.

use crate::binding::row::ServedRow;
use crate::carried::CarriedError;
use crate::dispatch::async_handler::{Later, Spawn};
use crate::dispatch::deferred_reply::{DeferredReply, DeferredResult};
use crate::dispatch::detached_call::{DetachedCall, ProcedureCall as _};
use crate::dispatch::measured::MeasuredAnswer;
use crate::dispatch::server::ServerEnd;
use crate::error::no_stack;
use crate::metrics::meter::Meter;
use crate::payload::interfaces::WITH_INTERFACES;
use crate::payload::message::{Bytes, IN_REPLY, Unsent, fill};
use crate::payload::out_of_band_value::OutOfBandSource;
use crate::payload::prefix::{CallPrefix, WITH_PREFIX};
use crate::trace_context::within;
use std::any::Any;
use std::sync::Arc;
use underpass_channel::{Cell, Channel, Ids};
use underpass_os::{clock, failpoint};
use underpass_wire::{ArgumentPlace, Carried, DecodeError, Encode};

/// How a call ended, in the `what` of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Status {
    /// The bytes are the result.
    Done = 0,
    /// The procedure panicked; the bytes are its message.
    Panicked = 1,
    /// The arguments don't fit the interface, and the procedure was not started; the bytes say why.
    BadArguments = 2,
    /// There was no room for the arguments, and the procedure was not started; the bytes say why.
    NoResources = 3,
    /// The client wanted the call no more, and the procedure was not started.
    Unwanted = 4,
    /// The server takes no more calls, and the procedure was not started.
    Closed = 5,
    /// The executor dropped the handler's future before it ended.
    Dropped = 6,
    /// The executor dropped the future before it ran it for the first time.
    DroppedUnstarted = 7,
    /// The procedure has ended, and there is no room for its result; the bytes say why.
    NoRoomForResult = 8,
    /// The call gives its slot back, and its answer comes later; the bytes are its number.
    Late = 9,
    /// The server's version of the interface has no such procedure.
    NoProcedure = 10,
    /// The call's row is closed or free, and the procedure was not started; the bytes say if it was
    /// revoked.
    NoBinding = 11,
    /// Nobody wanted the call any more, so its handler was dropped before it ended.
    Cancelled = 12,
    /// The bytes are the result, behind the interfaces that it has.
    DoneWithInterfaces = 13,
}

/// What the bytes of a refusal with `NoBinding` say if the binding was revoked.
pub(crate) const REVOKED: &str = "revoked";

impl Status {
    pub(crate) fn from(what: u16) -> Option<Self> {
        [
            Self::Done,
            Self::Panicked,
            Self::BadArguments,
            Self::NoResources,
            Self::Unwanted,
            Self::Closed,
            Self::Dropped,
            Self::DroppedUnstarted,
            Self::NoRoomForResult,
            Self::Late,
            Self::NoProcedure,
            Self::NoBinding,
            Self::Cancelled,
            Self::DoneWithInterfaces,
        ]
        .into_iter()
        .find(|s| *s as u16 == what)
    }
}

/// A server stub: finds the procedure, decodes its arguments, runs it, encodes its result.
/// Generated.
pub trait Dispatch: Send + Sync + 'static {
    /// Runs one call.
    ///
    /// # Errors
    /// The arguments or the result could not be passed; the caller is told why.
    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), Refused>;

    /// Runs one call that came over no channel. Server stubs of async handlers have
    /// [`DispatchLocal`](crate::DispatchLocal) for that.
    ///
    /// # Errors
    /// The arguments or the result could not be passed; the caller is told why.
    fn dispatch_detached(&self, call: &mut DetachedCall) -> Result<(), Refused> {
        call.unknown()
    }

    /// The implementation for stubs in its own domain: an `Arc<L>`. `None` if they call over a
    /// channel, too.
    fn local(self: Arc<Self>) -> Option<Box<dyn Any>> {
        None
    }

    /// What counts its calls, if they are measured.
    #[doc(hidden)]
    fn meter(&self) -> Option<&Arc<Meter>> {
        None
    }
}

/// Why a call has no result of its procedure.
#[derive(Debug)]
pub struct Refused {
    pub(crate) status: Status,
    pub(crate) why: String,
}

impl From<DecodeError> for Refused {
    #[cold]
    fn from(e: DecodeError) -> Self {
        let (status, why) = match e {
            DecodeError::NoStack { .. } => (Status::NoResources, no_stack(&e)),
            DecodeError::NoRoomForFile | DecodeError::NoRoomForInterface => {
                (Status::NoResources, e.to_string())
            }
            _ => (Status::BadArguments, e.to_string()),
        };
        Self { status, why }
    }
}

/// One call that has come.
#[derive(Debug)]
pub struct IncomingCall<'a> {
    end: &'a ServerEnd,
    pub(crate) row: &'a ServedRow,
    procedure: u16,
    /// How many bytes the message has. Once there is a reply that is [`Replied::Large`], how many
    /// its result has.
    pub(crate) length: usize,
    pub(crate) bytes: Bytes<'a>,
    /// The reply, if there is one.
    pub(crate) reply: Cell,
    pub(crate) replied: Replied,
}

/// Whether a call has a reply when its server stub has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replied {
    /// There is none.
    No,
    /// There is none, and a handler that replies later reads in the slot's A-stack or overflow
    /// buffer until then.
    NoAndReads,
    /// The reply is there, to be posted.
    Yes,
    /// The same, of a measured call whose result goes beside the ring. Whether the result is an
    /// error.
    Large { failed: bool },
    /// Another thread posts the reply, or has posted it.
    Later,
}

impl<'a> IncomingCall<'a> {
    /// The call of the slot and procedure in `ids`. Its message has `length` bytes.
    #[inline(always)]
    pub(crate) fn new(
        end: &'a ServerEnd,
        row: &'a ServedRow,
        ids: Ids,
        bytes: Bytes<'a>,
        length: usize,
    ) -> Self {
        let reply = Cell::new(ids.slot(), Status::Done as u16);
        Self { end, row, procedure: ids.what(), length, bytes, reply, replied: Replied::No }
    }

    /// The index of the procedure, as the client says.
    #[inline]
    pub fn procedure(&self) -> u16 {
        self.procedure
    }

    /// How many bytes of the arguments have not been read.
    pub fn left(&self) -> usize {
        self.bytes.left()
    }

    /// The number of the binding over which the call came.
    pub fn binding_id(&self) -> u64 {
        self.row.binding.binding().id()
    }

    /// The state of type `T` that the server keeps for the binding, as
    /// [`binding_state`](crate::binding_state) says.
    pub fn binding_state<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        self.row.binding.record().state(make)
    }

    /// The next argument, copied out of the channel and checked (LRPC, Table III: E).
    ///
    /// # Errors
    /// The bytes that came are no value of the type.
    #[inline(always)]
    pub fn argument<C: Carried>(&mut self, argument: &mut ArgumentPlace<C::Itself>) -> Result<(), Refused> {
        Ok(self.bytes.read_into(argument.place())?)
    }

    /// Checks that all arguments were read.
    ///
    /// # Errors
    /// There are bytes or files left over.
    #[inline]
    pub fn end(&mut self) -> Result<(), Refused> {
        self.bytes.check_end()?;
        failpoint!("server-before");
        Ok(())
    }

    /// Encodes the result of the procedure (LRPC, Table III: F). Returns whether the result is so
    /// large that its caller should not wait until it is dropped.
    ///
    /// # Errors
    /// There is no room for it.
    #[inline]
    pub fn reply<V: Carried, E: CarriedError>(
        &mut self,
        result: &Result<V::Itself, E::Itself>,
    ) -> Result<bool, Refused> {
        failpoint!("server-after");
        if self.replied != Replied::No {
            self.reply = Cell::new(self.reply.slot(), Status::Done as u16);
        }
        self.replied = Replied::Yes;
        let large = self.end.encode(&mut self.reply, result)?;
        if large {
            self.measure_large(result);
        }
        Ok(large)
    }

    /// Notes what the cell of the reply does not tell, if the call is measured.
    #[cold]
    #[inline(never)]
    fn measure_large<V: Encode, E: Encode>(&mut self, result: &Result<V, E>) {
        if self.row.stub.meter().is_some() {
            self.length = result.size();
            self.replied = Replied::Large { failed: result.is_err() };
        }
    }

    /// Drops the result after the reply has been posted. Use it for a list of many parts, which
    /// takes long to drop.
    #[cold]
    pub fn drop_later<T: 'static>(&mut self, value: T) {
        /// A larger value is not worth another move.
        const MOST: usize = 1024;
        if std::mem::needs_drop::<T>() && size_of::<T>() <= MOST {
            // All arguments were read, so their place is free.
            self.bytes = Bytes::OutOfBand(Box::new(OutOfBandSource::over(value)));
        }
    }

    /// Has `spawn` run the procedure, which replies when it ends. The caller of this can take other
    /// calls at once.
    ///
    /// # Errors
    /// The binding is closed.
    pub fn later<V: Carried<Itself: Send + 'static>, E: CarriedError<Itself: Send + 'static>>(
        &mut self,
        spawn: &Spawn,
        handler: impl Future<Output = Result<V::Itself, E::Itself>> + Send + 'static,
    ) -> Result<(), Refused> {
        spawn(Box::pin(self.replies_later()?.run(handler)));
        Ok(())
    }

    /// The right and the duty to reply to this call, for any thread and at any time. The caller of
    /// this can take other calls at once.
    ///
    /// # Errors
    /// The binding is closed.
    pub fn defer<V: Carried<Itself: Send + 'static>, E: CarriedError<Itself: Send + 'static>>(
        &mut self,
    ) -> Result<DeferredResult<V, E>, Refused> {
        Ok(DeferredReply::new(self.replies_later()?))
    }

    /// Whether interfaces came along that were not taken.
    fn has_interfaces(&self) -> bool {
        self.procedure & WITH_INTERFACES != 0
    }

    /// The call was not started: releases the interfaces that came along.
    #[cold]
    pub(crate) fn release_interfaces(&mut self) {
        if self.has_interfaces() {
            self.procedure &= !WITH_INTERFACES;
            let _ = self.bytes.take_interfaces(self.end.mailbox(), false);
            self.bytes = Bytes::Inline(&[]);
        }
    }

    fn replies_later(&mut self) -> Result<Later, Refused> {
        let (end, slot) = self.end_of_call()?;
        let keeps_slot = self.replied == Replied::NoAndReads;
        self.replied = Replied::Later;
        end.runs_later(slot);
        let measured = MeasuredAnswer::begin(&*self.row.stub, self.procedure);
        Ok(Later::new(end, self.row.binding.clone(), slot, keeps_slot, measured))
    }

    /// The channel over which it came.
    pub(crate) fn channel(&self) -> &Channel {
        self.end.channel()
    }

    /// A hold on the end of the call, and the slot.
    pub(crate) fn end_of_call(&self) -> Result<(Arc<ServerEnd>, u16), Refused> {
        let closed = || Refused { status: Status::NoResources, why: "the binding is closed".to_owned() };
        Ok((self.end.own().ok_or_else(closed)?, self.reply.slot()))
    }

    /// There is no such procedure: the client may know a newer version of the interface. If the
    /// number only says that interfaces or a prefix came along, takes them, and dispatches the call
    /// again.
    ///
    /// # Errors
    /// There is no such procedure, or there are no such interfaces, or the call itself fails.
    #[cold]
    pub fn unknown(&mut self) -> Result<(), Refused> {
        if self.has_interfaces() {
            self.procedure &= !WITH_INTERFACES;
            self.bytes.take_interfaces(self.end.mailbox(), false)?;
            return self.row.stub.dispatch(self);
        }
        if self.procedure & WITH_PREFIX != 0 {
            return self.take_prefix();
        }
        Err(Refused { status: Status::NoProcedure, why: String::new() })
    }
}

impl IncomingCall<'_> {
    /// Takes what came in front of the arguments, and dispatches the call again.
    #[cold]
    fn take_prefix(&mut self) -> Result<(), Refused> {
        self.procedure &= !WITH_PREFIX;
        let CallPrefix { context, posted_ns } = self.bytes.read()?;
        if let (Some(posted_ns), Some(meter)) = (posted_ns, self.row.stub.meter()) {
            let posted_ns = self.end.family().clock_offset().here(posted_ns);
            meter.queued(self.procedure, clock::now_ns().saturating_sub(posted_ns));
        }
        within(context.as_ref(), || self.row.stub.dispatch(self))
    }
}

impl ServerEnd {
    /// Encodes a result into its reply.
    #[inline(always)]
    pub(crate) fn encode<T: Encode + ?Sized>(&self, reply: &mut Cell, value: &T) -> Result<bool, Refused> {
        match fill::<IN_REPLY, _>(self.channel(), self.mailbox(), reply, value) {
            Ok(out_of_band) => {
                failpoint!("server-filled");
                Ok(out_of_band)
            }
            Err(e) => Err(unsent(e)),
        }
    }
}

#[cold]
fn unsent(e: Unsent) -> Refused {
    let why = match e {
        Unsent::Inconsistent => {
            "a type of the result whose Encode::size disagrees with its encode".to_owned()
        }
        Unsent::NoPeer => "the caller is gone".to_owned(),
        Unsent::NoResources(e) => e.to_string(),
    };
    Refused { status: Status::NoRoomForResult, why }
}
