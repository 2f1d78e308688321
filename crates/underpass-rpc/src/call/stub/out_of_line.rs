//! Calls of bindings that are not plain ones over a channel, out of line.
//!
//! The call of a plain binding is part of its stub, as it has to be short. For all other bindings
//! there is one copy of the call for each method, and not one for each kind of binding: with their
//! debug information such copies were most of a program.

use super::To;
use super::measured::Counted;
use crate::binding::import::Bound;
use crate::binding::resilient::RepeatedCall;
use crate::call::client::CallTerms;
use crate::carried::CarriedError;
use crate::error::{CallError, Outcome};
use crate::metrics::kind::FailureKind;
use crate::metrics::meter::TELLS_POST;
use crate::payload::prefix::AnyArguments;
use underpass_wire::{Carried, Decode, DecodeError, Encode, Source};

/// The value or the error of a result, with the number of its bytes. An error can stand for the
/// failure of its call.
///
/// The bytes of a result are those that are left to be read when its decoding begins. So the type
/// that is decoded tells them, and the path of the call is the same as without them.
pub(super) struct WithSize<T> {
    pub(super) itself: T,
    pub(super) bytes: u64,
    pub(super) failure: Option<FailureKind>,
}

impl<T: Decode> Decode for WithSize<T> {
    const LEAST: usize = T::LEAST;

    #[inline]
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        // The tag of the result was taken.
        let bytes = from.remaining() as u64 + 1;
        Ok(Self { itself: T::decode(from)?, bytes, failure: None })
    }
}

impl<T> WithSize<T> {
    pub(super) fn failed<E: CarriedError<Itself = T>>(error: CallError) -> Self {
        let failure = Some(error.failure_kind());
        Self { itself: E::from_call_error(error), bytes: 0, failure }
    }

    /// The same, of a call whose earlier attempts had the outcome `earlier`. Stores the error.
    fn failed_after<E: CarriedError<Itself = T>>(
        error: CallError,
        earlier: Outcome,
        stored: &mut Option<CallError>,
    ) -> Self {
        let error = error.after(earlier);
        *stored = Some(error.clone());
        Self::failed::<E>(error)
    }
}

/// The result of a call, as it is decoded.
pub(super) type ResultWithSize<V, E> =
    Result<WithSize<<V as Carried>::Itself>, WithSize<<E as CarriedError>::Itself>>;

/// What one method calls: its number, its arguments, and whether it may be executed twice.
pub(super) struct MethodCall<'a, A: ?Sized> {
    pub(super) procedure: u16,
    pub(super) arguments: &'a A,
    pub(super) idempotent: bool,
}

impl<A: Encode + ?Sized> MethodCall<'_, A> {
    /// Makes the call over `bound`. If there is no result, `error` says why.
    #[inline(never)]
    fn over<V: Carried, E: CarriedError>(
        &self,
        bound: &Bound,
        terms: &CallTerms,
        earlier: Outcome,
        error: &mut Option<CallError>,
    ) -> ResultWithSize<V, E> {
        let failed = |e| WithSize::failed_after::<E>(e, earlier, error);
        bound.call::<A, ResultWithSize<V, E>>(self.procedure, self.arguments, terms, failed)
    }

    /// The same, and tells the server when the call was posted.
    fn telling_post<V: Carried, E: CarriedError>(
        &self,
        bound: &Bound,
        terms: &CallTerms,
    ) -> ResultWithSize<V, E> {
        AnyArguments::with(self.arguments, |arguments| {
            let failed = WithSize::failed::<E>;
            bound.call_telling_post::<ResultWithSize<V, E>>(self.procedure, arguments, terms, failed)
        })
    }

    /// The same as [`over`](Self::over), for a task.
    async fn over_from_task<V: Carried, E: CarriedError>(
        &self,
        bound: &Bound,
        terms: &CallTerms,
        earlier: Outcome,
        error: &mut Option<CallError>,
    ) -> ResultWithSize<V, E> {
        let failed = |e| WithSize::failed_after::<E>(e, earlier, error);
        bound.call_from_task::<A, ResultWithSize<V, E>>(self.procedure, self.arguments, terms, failed).await
    }

    /// Makes the call over one binding after another, until it needs no other attempt.
    fn repeated<V: Carried, E: CarriedError>(&self, mut call: RepeatedCall<'_>) -> ResultWithSize<V, E> {
        loop {
            let mut error = None;
            let result = self.over::<V, E>(&call.bound, call.terms(), call.earlier, &mut error);
            match call.goes_on(error, self.idempotent) {
                Ok(true) => {}
                Ok(false) => return result,
                Err(error) => return Err(WithSize::failed::<E>(error)),
            }
        }
    }

    /// The same as [`repeated`](Self::repeated), for a task.
    async fn repeated_from_task<V: Carried, E: CarriedError>(
        &self,
        mut call: RepeatedCall<'_>,
    ) -> ResultWithSize<V, E> {
        loop {
            let mut error = None;
            let attempt = self.over_from_task::<V, E>(&call.bound, call.terms(), call.earlier, &mut error);
            let result = attempt.await;
            match call.goes_on_as_task(error, self.idempotent).await {
                Ok(true) => {}
                Ok(false) => return result,
                Err(error) => return Err(WithSize::failed::<E>(error)),
            }
        }
    }
}

impl<L: ?Sized + Send + Sync + 'static> To<L> {
    /// The binding that carries the calls, and the count of a call that is measured.
    fn carrier<'a, A: Encode + ?Sized>(
        &'a self,
        request: &MethodCall<'_, A>,
    ) -> (&'a Self, Option<Counted<'a>>) {
        match self {
            Self::Here(here) => match here.measured() {
                Some(measured) => (&measured.to, Some(Counted::begin(&measured.meter, request))),
                None => (self, None),
            },
            to => (to, None),
        }
    }

    /// Makes a call over any binding. If the binding is measured, counts the call.
    #[cold]
    #[inline(never)]
    pub(super) fn call_out_of_line<A: Encode + ?Sized, V: Carried, E: CarriedError>(
        &self,
        terms: &CallTerms,
        request: &MethodCall<'_, A>,
    ) -> Result<V::Itself, E::Itself> {
        let (to, counted) = self.carrier(request);
        let result = match to {
            Self::There(bound) => match &counted {
                Some(counted) if counted.began == TELLS_POST => request.telling_post::<V, E>(bound, terms),
                _ => request.over::<V, E>(bound, terms, Outcome::NotStarted, &mut None),
            },
            Self::Anywhere(resilient, known) => match RepeatedCall::begin(resilient, terms, known) {
                Ok(call) => request.repeated::<V, E>(call),
                Err(error) => Err(WithSize::failed::<E>(*error)),
            },
            Self::Here(here) => {
                let called = here.call(request.procedure, request.arguments, terms);
                called.unwrap_or_else(|e| Err(WithSize::failed::<E>(e)))
            }
        };
        without_size(counted, result)
    }

    /// As [`call_out_of_line`](Self::call_out_of_line), for a task.
    pub(super) async fn call_from_task<A: Encode + ?Sized, V: Carried, E: CarriedError>(
        &self,
        terms: &CallTerms,
        request: &MethodCall<'_, A>,
    ) -> Result<V::Itself, E::Itself> {
        let (to, counted) = self.carrier(request);
        let result = match to {
            Self::There(bound) => {
                request.over_from_task::<V, E>(bound, terms, Outcome::NotStarted, &mut None).await
            }
            Self::Anywhere(resilient, known) => match RepeatedCall::begin(resilient, terms, known) {
                Ok(call) => request.repeated_from_task::<V, E>(call).await,
                Err(error) => Err(WithSize::failed::<E>(*error)),
            },
            Self::Here(here) => {
                let called = here.call_from_task(request.procedure, request.arguments, terms).await;
                called.unwrap_or_else(|e| Err(WithSize::failed::<E>(e)))
            }
        };
        without_size(counted, result)
    }
}

/// Counts a call that has ended, if it is measured.
fn without_size<V, E>(
    counted: Option<Counted<'_>>,
    result: Result<WithSize<V>, WithSize<E>>,
) -> Result<V, E> {
    match counted {
        Some(counted) => counted.end(result),
        None => result.map(|value| value.itself).map_err(|error| error.itself),
    }
}
