//! Bindings that are not called over a channel at once: within this domain, to other machines, and
//! measured ones.

use super::measured::MeasuredBinding;
use crate::binding::implementation::Implementation;
use crate::binding::object::Binding;
use crate::binding::peer::{Peer, WithinBinding, within_binding};
use crate::binding::record::BindingRecord;
use crate::call::client::CallTerms;
use crate::control::clerk::Offer;
use crate::dispatch::local_handlers::{self, DispatchLocal};
use crate::error::{CallError, Outcome};
use crate::remote;
use crate::remote::transport::RemoteBinding;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use underpass_wire::{Decode, Descriptor, Encode};

/// A binding without a channel: within this domain, or to another machine. Or one that is measured.
pub(super) struct Here<L: ?Sized> {
    callee: Callee<L>,
    /// Made at the first direct call, if it is a value.
    record: OnceLock<Arc<BindingRecord>>,
    /// `None` if it is on another machine, or measured.
    pub(super) implementation: Option<Implementation>,
}

/// How an implementation is called without a channel.
enum Callee<L: ?Sized> {
    /// By its methods.
    Methods(Arc<L>),
    /// Through its executor, as its handlers are async.
    Handlers(Arc<dyn DispatchLocal>),
    /// By a transport, as it is on another machine.
    Remote(Arc<dyn RemoteBinding>),
    /// As this binding is, and its calls are counted.
    Measured(MeasuredBinding<L>),
}

impl<L: ?Sized> Drop for Here<L> {
    fn drop(&mut self) {
        // A call borrows the stub, so none is under way that its caller waits for.
        if let Some(record) = self.record.get() {
            record.end();
        }
    }
}

impl<L: ?Sized> Here<L> {
    /// The binding, if it is one to another machine.
    pub(super) fn remote(&self) -> Option<&dyn RemoteBinding> {
        match &self.callee {
            Callee::Remote(binding) => Some(&**binding),
            Callee::Methods(_) | Callee::Handlers(_) | Callee::Measured(_) => None,
        }
    }

    /// The binding that is measured, if it is one.
    pub(super) fn measured(&self) -> Option<&MeasuredBinding<L>> {
        match &self.callee {
            Callee::Measured(measured) => Some(measured),
            Callee::Methods(_) | Callee::Handlers(_) | Callee::Remote(_) => None,
        }
    }

    /// A measured binding.
    pub(super) fn measuring(binding: MeasuredBinding<L>) -> Self {
        Self { callee: Callee::Measured(binding), record: OnceLock::new(), implementation: None }
    }
}

impl<L: ?Sized + Send + Sync + 'static> Here<L> {
    /// A new binding to an implementation of this very interface in this domain, if it is an `L`.
    pub(super) fn of(offer: &Offer, descriptor: &Descriptor) -> Option<Self> {
        let service = offer.services.iter().find(|service| service.descriptor().hash == descriptor.hash)?;
        let implementation = service.implementation.clone();
        let callee = Callee::Methods(implementation.local()?);
        let binding = Binding::new(offer.name.clone(), Peer::here(), None);
        // The end of the exports doesn't wait for the stubs of this domain.
        let record = BindingRecord::new(binding, service.options.on_end.clone(), Arc::default());
        Some(Self { callee, record: record.into(), implementation: Some(implementation) })
    }

    /// A binding to an implementation that was given as a value, if it is an `L`, or one of this
    /// interface with async handlers.
    pub(super) fn of_value(implementation: Implementation, descriptor: &Descriptor) -> Option<Self> {
        let handlers = || {
            let of_this = implementation.descriptor.hash == descriptor.hash;
            of_this.then(|| implementation.local()).flatten().map(Callee::Handlers)
        };
        let callee = implementation.local().map(Callee::Methods).or_else(handlers)?;
        Some(Self { callee, record: OnceLock::new(), implementation: Some(implementation) })
    }

    /// A binding to another machine.
    pub(super) fn elsewhere(binding: Arc<dyn RemoteBinding>) -> Self {
        Self { callee: Callee::Remote(binding), record: OnceLock::new(), implementation: None }
    }

    /// The implementation, if it is here and has no async handlers.
    #[inline]
    pub(super) fn local(&self) -> Option<Local<'_, L>> {
        match &self.callee {
            Callee::Methods(local) => Some(Local { local, _within: within_binding(self.record()) }),
            Callee::Handlers(_) | Callee::Remote(_) | Callee::Measured(_) => None,
        }
    }

    /// The async handlers. An implementation without them is called directly, so nothing else is
    /// asked of it.
    fn handlers(&self) -> Result<&dyn DispatchLocal, CallError> {
        match &self.callee {
            Callee::Handlers(handlers) => Ok(&**handlers),
            Callee::Methods(_) | Callee::Remote(_) | Callee::Measured(_) => {
                Err(CallError::Closed(Outcome::NotStarted))
            }
        }
    }

    /// Calls a procedure that no method is called for: of async handlers, or on another machine.
    #[cold]
    #[inline(never)]
    pub(super) fn call<R: Decode>(
        &self,
        procedure: u16,
        arguments: &(impl Encode + ?Sized),
        terms: &CallTerms,
    ) -> Result<R, CallError> {
        if let Some(binding) = self.remote() {
            return remote::call::call(binding, terms, procedure, arguments);
        }
        local_handlers::call(self.handlers()?, self.record(), procedure, arguments)
    }

    /// As [`call`](Self::call), for tasks.
    pub(super) async fn call_from_task<R: Decode>(
        &self,
        procedure: u16,
        arguments: &(impl Encode + ?Sized),
        terms: &CallTerms,
    ) -> Result<R, CallError> {
        if let Some(binding) = self.remote() {
            return remote::call::call_from_task(binding, terms, procedure, arguments).await;
        }
        local_handlers::call_from_task(self.handlers()?, self.record(), procedure, arguments).await
    }

    fn record(&self) -> &Arc<BindingRecord> {
        self.record.get_or_init(|| {
            let name =
                self.implementation.as_ref().map_or("", |implementation| implementation.descriptor.name);
            BindingRecord::new(Binding::new(name.into(), Peer::here(), None), None, Arc::default())
        })
    }
}

/// The implementation in this very domain, while it is called. Meanwhile the calling thread counts
/// as working for a call of the stub's binding.
pub struct Local<'a, L: ?Sized> {
    local: &'a L,
    _within: WithinBinding,
}

impl<L: ?Sized> Deref for Local<'_, L> {
    type Target = L;

    fn deref(&self) -> &L {
        self.local
    }
}

impl<L: ?Sized> fmt::Debug for Local<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").finish_non_exhaustive()
    }
}
