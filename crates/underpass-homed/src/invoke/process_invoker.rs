//! Invocations at process level, which are ordinary calls, under the rule against deadlock.

use crate::invoke::errors::InvokeError;
use crate::invoke::masked;

/// A client by which a thread invokes a home at process level, where it may: see the
/// [rules](crate::lock#the-rules-of-mixing). A process must not call while it has locked out
/// invocations at interrupt level (Psyche, section 3.2).
///
/// # Examples
/// ```
/// use underpass::homed::invoke::{InvocationHandlers, InvokeError, ProcessInvoker};
///
/// /// Stands for a client of an interface.
/// struct Desk;
///
/// let (services, home) = InvocationHandlers::new().start();
/// # drop(services);
/// let desk = ProcessInvoker::of(Desk);
/// assert!(desk.client().is_ok());
/// let section = home.mask();
/// assert_eq!(desk.client().err(), Some(InvokeError::Masked));
/// drop(section);
/// ```
#[derive(Clone, Debug)]
pub struct ProcessInvoker<C>(C);

impl<C> ProcessInvoker<C> {
    /// Calls by `client` from now on.
    pub fn of(client: C) -> Self {
        Self(client)
    }

    /// The client, for one call.
    ///
    /// # Errors
    /// [`Masked`](InvokeError::Masked) and [`HoldsLock`](InvokeError::HoldsLock), with their
    /// remedies.
    pub fn client(&self) -> Result<&C, InvokeError> {
        masked::outgoing().map(|()| &self.0)
    }
}
