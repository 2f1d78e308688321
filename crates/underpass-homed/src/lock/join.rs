//! How a remote gets a locked object: an internal interface, exported under the object's name.

use crate::open::generated;
use std::os::fd::OwnedFd;
use underpass_rpc::CallError;

/// A locked object, as a remote gets it.
#[derive(Debug, underpass_macros::Wire)]
#[underpass(crate = crate::open::generated)]
pub(crate) struct JoinedObject {
    /// The remote's number.
    pub(crate) number: u32,
    /// Of a semaphore.
    pub(crate) permits: u32,
    pub(crate) memory: OwnedFd,
}

/// Why there is none.
#[derive(Debug, underpass_macros::Wire)]
#[underpass(crate = crate::open::generated)]
pub(crate) enum JoinObjectError {
    Call(CallError),
    OtherType,
    NoResources,
}

impl From<CallError> for JoinObjectError {
    fn from(e: CallError) -> Self {
        Self::Call(e)
    }
}

/// The interface of every locked object.
#[underpass_macros::interface(crate = generated)]
pub(crate) trait ObjectJoin {
    /// Makes the caller a remote of an object with this shape. A binding is one remote.
    fn join(&self, shape: u64) -> Result<JoinedObject, JoinObjectError>;

    /// Ends a remote. Only those in the home's own process need to: others end with their binding.
    fn leave(&self, number: u32) -> Result<(), CallError>;
}

impl ObjectJoinClient {
    /// Whether the home has died or ended the binding, as far as this domain knows. It enters no
    /// kernel.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.stub.has_ended()
    }

    /// Whether the home has taken this domain's right to the object away.
    pub(crate) fn is_revoked(&self) -> bool {
        matches!(self.stub.why_ended(), Some(CallError::Revoked(_)))
    }

    /// Whether the home is this very process.
    pub(crate) fn is_here(&self) -> bool {
        self.stub.local().is_some()
    }
}
