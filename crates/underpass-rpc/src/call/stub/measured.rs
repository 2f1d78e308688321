//! Measured bindings: each call is counted once it has ended.

use super::here::Here;
use super::out_of_line::{MethodCall, WithSize};
use super::{Stub, To};
use crate::metrics::kind::{EndKind, FailureKind};
use crate::metrics::meter::Meter;
use crate::metrics::{self, MeasuredSide};
use std::sync::Arc;
use underpass_wire::{Descriptor, Encode};

/// Where a measured binding leads, and what counts its calls.
pub(super) struct MeasuredBinding<L: ?Sized> {
    pub(super) to: To<L>,
    pub(super) meter: Arc<Meter>,
}

impl<L: ?Sized> Clone for MeasuredBinding<L> {
    fn clone(&self) -> Self {
        Self { to: self.to.clone(), meter: self.meter.clone() }
    }
}

impl<L: ?Sized> Clone for To<L> {
    fn clone(&self) -> Self {
        match self {
            Self::Here(here) => Self::Here(match here.measured() {
                // A clone of a resilient binding knows restarts by itself.
                Some(measured) => Arc::new(Here::measuring(measured.clone())),
                None => here.clone(),
            }),
            Self::There(bound) => Self::There(bound.clone()),
            Self::Anywhere(resilient, known) => Self::Anywhere(resilient.clone(), known.clone()),
        }
    }
}

impl<L: ?Sized> Stub<L> {
    /// Where the binding leads, whether it is measured or not.
    pub(super) fn leads_to(&self) -> &To<L> {
        match &self.to {
            To::Here(here) => here.measured().map_or(&self.to, |measured| &measured.to),
            to => to,
        }
    }
}

impl<L: ?Sized + Send + Sync + 'static> Stub<L> {
    /// The same binding. Its calls are counted and timed, method by method, among the metrics of
    /// this process, as those of an import of `name`. A binding within this domain stays as it is:
    /// its calls are function calls.
    #[must_use]
    pub fn measured(&self, name: &str, descriptor: &'static Descriptor) -> Self {
        let mut other = self.clone();
        let to = self.leads_to().clone();
        if !matches!(&to, To::Here(here) if here.remote().is_none()) {
            let meter = metrics::meter_of(MeasuredSide::Import, name, descriptor);
            other.to = To::Here(Arc::new(Here::measuring(MeasuredBinding { to, meter })));
        }
        other
    }

    /// As the environment says of imports that are not told otherwise.
    pub(super) fn measured_by_default(self, name: &str, descriptor: &'static Descriptor) -> Self {
        if metrics::is_default() { self.measured(name, descriptor) } else { self }
    }
}

/// A call under way. It is counted when it is dropped. If its result has not come by then, its
/// caller has dropped its future, or has panicked.
pub(super) struct Counted<'a> {
    meter: &'a Meter,
    procedure: u16,
    pub(super) began: u64,
    sent: u64,
    received: u64,
    end: EndKind,
}

impl<'a> Counted<'a> {
    #[inline]
    pub(super) fn begin<A: Encode + ?Sized>(meter: &'a Meter, request: &MethodCall<'_, A>) -> Self {
        let procedure = request.procedure;
        let sent = A::FIXED.unwrap_or_else(|| request.arguments.size()) as u64;
        let end = EndKind::Failed(FailureKind::Abandoned);
        Self { meter, procedure, began: meter.begin(procedure), sent, received: 0, end }
    }

    #[inline]
    pub(super) fn end<V, E>(mut self, result: Result<WithSize<V>, WithSize<E>>) -> Result<V, E> {
        match result {
            Ok(value) => {
                (self.end, self.received) = (EndKind::Returned, value.bytes);
                Ok(value.itself)
            }
            Err(error) => {
                self.end = error.failure.map_or(EndKind::ReturnedError, EndKind::Failed);
                self.received = error.bytes;
                Err(error.itself)
            }
        }
    }
}

impl Drop for Counted<'_> {
    #[inline]
    fn drop(&mut self) {
        self.meter.end(self.procedure, self.began, self.end, self.received, self.sent);
    }
}
