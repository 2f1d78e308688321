//! A call that came over no channel: its arguments and its result are in memory.

use crate::carried::CarriedError;
use crate::dispatch::incoming::{Dispatch, IncomingCall, Refused, Status};
use crate::dispatch::local_handlers::{LocalMessage, not_started};
use crate::error::{CallError, Outcome};
use crate::payload::shared::Shared;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use underpass_threads::panic_message;
use underpass_wire::{ArgumentPlace, Carried, Decode, Source as _};

/// What a server stub asks of a call, wherever it comes from. `'a`: where its bytes lie.
pub trait ProcedureCall<'a> {
    /// As [`IncomingCall::procedure`].
    fn procedure(&self) -> u16;

    /// As [`IncomingCall::argument`].
    ///
    /// # Errors
    /// The bytes that came are no value of the type.
    fn argument<C: Carried>(&mut self, argument: &mut ArgumentPlace<C::Itself>) -> Result<(), Refused>;

    /// As [`IncomingCall::shared`].
    ///
    /// # Errors
    /// What came is no such argument.
    fn shared(&mut self) -> Result<Shared<'a>, Refused>;

    /// As [`IncomingCall::end`].
    ///
    /// # Errors
    /// There are bytes or files left over.
    fn end(&mut self) -> Result<(), Refused>;

    /// As [`IncomingCall::reply`].
    ///
    /// # Errors
    /// There is no room for it.
    fn reply<V: Carried, E: CarriedError>(
        &mut self,
        result: &Result<V::Itself, E::Itself>,
    ) -> Result<bool, Refused>;

    /// As [`IncomingCall::drop_later`].
    fn drop_later<T: 'static>(&mut self, value: T);

    /// As [`IncomingCall::unknown`].
    ///
    /// # Errors
    /// There is no such procedure.
    fn unknown(&mut self) -> Result<(), Refused>;
}

impl<'a> ProcedureCall<'a> for IncomingCall<'a> {
    #[inline(always)]
    fn procedure(&self) -> u16 {
        self.procedure()
    }

    #[inline(always)]
    fn argument<C: Carried>(&mut self, argument: &mut ArgumentPlace<C::Itself>) -> Result<(), Refused> {
        self.argument::<C>(argument)
    }

    #[inline]
    fn shared(&mut self) -> Result<Shared<'a>, Refused> {
        self.shared()
    }

    #[inline(always)]
    fn end(&mut self) -> Result<(), Refused> {
        self.end()
    }

    #[inline(always)]
    fn reply<V: Carried, E: CarriedError>(
        &mut self,
        result: &Result<V::Itself, E::Itself>,
    ) -> Result<bool, Refused> {
        self.reply::<V, E>(result)
    }

    #[inline]
    fn drop_later<T: 'static>(&mut self, value: T) {
        self.drop_later(value);
    }

    #[inline]
    fn unknown(&mut self) -> Result<(), Refused> {
        self.unknown()
    }
}

/// A call with its arguments in memory, and with its result there when it has returned.
pub struct DetachedCall {
    procedure: u16,
    arguments: LocalMessage,
    result: Option<LocalMessage>,
}

impl DetachedCall {
    pub(crate) fn new(procedure: u16, arguments: LocalMessage) -> Self {
        Self { procedure, arguments, result: None }
    }

    /// How many bytes of the arguments have not been read.
    pub(crate) fn left(&self) -> usize {
        self.arguments.remaining()
    }

    /// The bytes of the result, once there is one.
    pub(crate) fn result_bytes(&self) -> Option<&[u8]> {
        self.result.as_ref().map(|result| &result.bytes[..])
    }

    /// Has `stub` run it on the calling thread.
    ///
    /// # Errors
    /// There is no result. The error is that of a call over a binding.
    pub(crate) fn run(mut self, stub: &dyn Dispatch) -> Result<LocalMessage, CallError> {
        match catch_unwind(AssertUnwindSafe(|| stub.dispatch_detached(&mut self))) {
            Ok(Ok(())) => self.result.ok_or(CallError::Dropped(Outcome::Unknown)),
            Ok(Err(refused)) => Err(not_started(refused)),
            Err(panic) => Err(CallError::Panicked(panic_message(&*panic).to_owned())),
        }
    }
}

impl ProcedureCall<'static> for DetachedCall {
    fn procedure(&self) -> u16 {
        self.procedure
    }

    fn argument<C: Carried>(&mut self, argument: &mut ArgumentPlace<C::Itself>) -> Result<(), Refused> {
        Ok(C::Itself::decode_into(argument.place(), &mut self.arguments)?)
    }

    fn shared(&mut self) -> Result<Shared<'static>, Refused> {
        Ok(Shared::owned(Vec::decode(&mut self.arguments)?))
    }

    fn end(&mut self) -> Result<(), Refused> {
        Ok(self.arguments.check_end()?)
    }

    fn reply<V: Carried, E: CarriedError>(
        &mut self,
        result: &Result<V::Itself, E::Itself>,
    ) -> Result<bool, Refused> {
        let refused = |e: std::io::Error| Refused { status: Status::NoRoomForResult, why: e.to_string() };
        self.result = Some(LocalMessage::of(result).map_err(refused)?);
        Ok(false)
    }

    fn drop_later<T: 'static>(&mut self, value: T) {
        drop(value);
    }

    fn unknown(&mut self) -> Result<(), Refused> {
        Err(Refused { status: Status::NoProcedure, why: String::new() })
    }
}

impl fmt::Debug for DetachedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DetachedCall").field("procedure", &self.procedure).finish_non_exhaustive()
    }
}
