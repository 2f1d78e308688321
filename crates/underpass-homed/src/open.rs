//! How a reader gets an object: an internal interface, exported under the object's name.

use std::os::fd::OwnedFd;
use underpass_os::fork;
use underpass_rpc::{CallError, ServerState};

/// The paths that generated code uses: those of the facade, which knows this crate.
pub(crate) mod generated {
    pub(crate) mod __private {
        pub(crate) use underpass_rpc::{
            Abandon, AllLeased, CallError, CarriedError, Counters, DetachedCall, Dispatch, Exclusive,
            FromCallError, ImportError, IncomingCall, Policy, ProcedureCall, Refused, ResultOf, Service,
            ShareError, Stub, remote::RemoteTransport,
        };
        pub(crate) use underpass_wire as wire;
    }
}

/// An object, as a reader gets it.
#[derive(Debug, underpass_macros::Wire)]
#[underpass(crate = crate::open::generated)]
pub(crate) struct OpenedObject {
    pub(crate) generation: u64,
    /// How far the home's clock is ahead of the system's, in ns.
    pub(crate) ahead_ns: i64,
    pub(crate) memory: OwnedFd,
}

/// Why there is none.
#[derive(Debug, underpass_macros::Wire)]
#[underpass(crate = crate::open::generated)]
pub(crate) enum OpenObjectError {
    Call(CallError),
    OtherType,
    NoResources,
}

impl From<CallError> for OpenObjectError {
    fn from(e: CallError) -> Self {
        Self::Call(e)
    }
}

/// The interface of every object with a home.
#[underpass_macros::interface(crate = crate::open::generated)]
pub(crate) trait ObjectOpen {
    /// The object, for a reader of a type with this shape.
    fn open(&self, shape: u64) -> Result<OpenedObject, OpenObjectError>;

    /// Memory of as many lines as a reader copies, which only [`touch`](Self::touch) writes.
    fn calibration(&self) -> Result<OwnedFd, OpenObjectError>;

    /// Writes the first `lines` of these, so that they are in the cache of the home's processor.
    fn touch(&self, lines: u32) -> Result<(), CallError>;
}

impl ObjectOpenClient {
    /// Whether the home has died or ended the binding, as far as this domain knows. It enters no
    /// kernel.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.stub.has_ended()
    }

    /// Whether a call has to wake the home, as its attention word says. A forked child has no such
    /// word.
    #[inline]
    pub(crate) fn home_sleeps(&self) -> bool {
        !fork::is_forked() && self.stub.server_sleeps()
    }

    /// Whether the home's process is stopped. It enters the kernel.
    #[cold]
    pub(crate) fn home_is_stopped(&self) -> bool {
        self.stub.server() == Some(ServerState::Stopped)
    }

    /// Whether the home is this very process.
    pub(crate) fn is_here(&self) -> bool {
        self.stub.local().is_some()
    }

    /// Whether the home has taken this domain's right to the object away.
    pub(crate) fn is_revoked(&self) -> bool {
        matches!(self.stub.why_ended(), Some(CallError::Revoked(_)))
    }
}
