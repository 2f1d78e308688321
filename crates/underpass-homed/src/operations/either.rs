//! One operation that runs here or at the object's home.

use crate::choice::{ChosenWay, OperationPlan};
use crate::object::HomedObject;
use crate::operations::errors::OperationError;
use std::time::Duration;
use underpass_os::clock::now_ns;
use underpass_rpc::CallError;
use underpass_shared::Shareable;

/// How an `either` operation runs this time.
#[must_use]
pub struct EitherPlan<'a, T: Shareable> {
    plan: OperationPlan<'a>,
    object: &'a HomedObject<T>,
    patience: Duration,
}

impl<'a, T: Shareable> EitherPlan<'a, T> {
    pub(crate) fn new(plan: OperationPlan<'a>, object: &'a HomedObject<T>, patience: Duration) -> Self {
        Self { plan, object, patience }
    }

    /// Whether the home executes it.
    #[inline]
    pub fn invokes(&self) -> bool {
        self.plan.way() == ChosenWay::Invoke
    }

    /// Which stub to call: the one that waits, if the way is fixed; else one that gives up, as the
    /// operation can run here as well.
    #[inline]
    pub fn stub<S>(&self, waits: &'a S, patient: &'a S) -> &'a S {
        if self.plan.is_fixed() { waits } else { patient }
    }

    /// The home has executed it, or has not.
    ///
    /// # Errors
    /// Itself, if the operation is to run here.
    #[inline]
    pub fn invoked<R>(self, called: Result<R, CallError>) -> Result<Result<R, OperationError>, Self> {
        match called {
            Ok(result) => {
                self.plan.invoked(now_ns);
                Ok(Ok(result))
            }
            Err(e) => self.failed(e).map(Err),
        }
    }

    #[cold]
    fn failed(mut self, e: CallError) -> Result<OperationError, Self> {
        // Then it was the operation that failed, or the caller that no longer wants it.
        let is_final = matches!(
            e,
            CallError::Panicked(_)
                | CallError::Dropped(_)
                | CallError::Decode(..)
                | CallError::Cancelled(_)
                | CallError::Abandoned(_)
                | CallError::Forked
        );
        if self.plan.is_fixed() || is_final {
            return Ok(e.into());
        }
        let is_stopped = self.object.opener().home_is_stopped();
        self.plan.unanswered(self.patience.as_nanos() as f64, is_stopped);
        Err(self)
    }

    /// Runs it here.
    ///
    /// # Errors
    /// As [`HomedObject::access`](crate::HomedObject::access).
    #[inline]
    pub fn accessed<R>(self, operation: impl FnOnce(&T) -> R) -> Result<R, OperationError> {
        if self.plan.is_timed() {
            return self.timed(operation);
        }
        Ok(self.object.access_with(operation)?)
    }

    #[cold]
    fn timed<R>(self, operation: impl FnOnce(&T) -> R) -> Result<R, OperationError> {
        let (result, copied, ended) = self.object.access_with(|value| {
            let copied = now_ns();
            (operation(value), copied, now_ns())
        })?;
        self.plan.accessed(copied, ended);
        Ok(result)
    }
}
