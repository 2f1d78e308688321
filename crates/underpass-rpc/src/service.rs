//! An implementation, ready to be exported.

use crate::incoming::Dispatch;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use underpass_wire::Descriptor;

/// An implementation of an interface, with its server stub. Made by the interface's `serve`.
#[derive(Clone)]
pub struct Service {
    pub(crate) descriptor: &'static Descriptor,
    pub(crate) stub: Arc<dyn Dispatch>,
    /// An `Arc<L>`, for importers in this very domain.
    pub(crate) local: Arc<dyn Any + Send + Sync>,
}

impl Service {
    /// The implementation `local` behind the server stub `stub`. For generated code.
    pub fn new<L: ?Sized + Send + Sync + 'static>(
        descriptor: &'static Descriptor,
        stub: Arc<dyn Dispatch>,
        local: Arc<L>,
    ) -> Self {
        Self { descriptor, stub, local: Arc::new(local) }
    }

    /// What it implements.
    pub fn descriptor(&self) -> &'static Descriptor {
        self.descriptor
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("interface", &self.descriptor.name).finish_non_exhaustive()
    }
}
