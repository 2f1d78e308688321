//! An implementation of an interface, wherever it is needed without its type.

use crate::binding::service::Service;
use crate::dispatch::incoming::Dispatch;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use underpass_wire::Descriptor;

/// An implementation, for callers in other domains by its server stub, and for those in this one.
pub(crate) struct Implementation {
    pub(crate) descriptor: &'static Descriptor,
    pub(crate) stub: Arc<dyn Dispatch>,
    /// An `Arc<L>`, as of a [`Service`].
    pub(crate) local: Arc<dyn Any + Send + Sync>,
}

impl Implementation {
    pub(crate) fn of(service: &Service) -> Arc<Self> {
        let Service { descriptor, stub, local, .. } = service;
        Arc::new(Self { descriptor, stub: stub.clone(), local: local.clone() })
    }

    /// A service of it, with the usual options.
    pub(crate) fn service(&self) -> Service {
        let Self { descriptor, stub, local } = self;
        let options = Default::default();
        Service { descriptor, stub: stub.clone(), local: local.clone(), options }
    }

    /// The implementation itself, if it is an `L`.
    pub(crate) fn local<L: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<L>> {
        self.local.downcast_ref::<Arc<L>>().cloned()
    }
}

impl fmt::Debug for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Implementation").field("interface", &self.descriptor.name).finish_non_exhaustive()
    }
}
