//! An implementation of an interface, wherever it is needed without its type.

use crate::dispatch::incoming::Dispatch;
use std::fmt;
use std::sync::Arc;
use underpass_wire::Descriptor;

/// An implementation. Its server stub serves callers in other domains, and knows it for those in
/// this one.
#[derive(Clone)]
pub(crate) struct Implementation {
    pub(crate) descriptor: &'static Descriptor,
    pub(crate) stub: Arc<dyn Dispatch>,
}

impl Implementation {
    /// The implementation itself, if it is an `L`.
    pub(crate) fn local<L: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<L>> {
        self.stub.clone().local()?.downcast().ok().map(|local| *local)
    }
}

impl fmt::Debug for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Implementation").field("interface", &self.descriptor.name).finish_non_exhaustive()
    }
}
