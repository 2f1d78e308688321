//! How a requester attaches its area to a home: an internal interface, exported under the home's
//! name.

use crate::open::generated;
use std::os::fd::OwnedFd;
use underpass_rpc::CallError;

/// Why an area was not attached.
#[derive(Debug, underpass_macros::Wire)]
#[underpass(crate = crate::open::generated)]
pub(crate) enum AttachError {
    Call(CallError),
    /// The requester has another layout of areas.
    OtherLayout,
    /// The binding has an area.
    HasOne,
    /// The memory can't be used; the text says why.
    Memory(String),
}

impl From<CallError> for AttachError {
    fn from(e: CallError) -> Self {
        Self::Call(e)
    }
}

/// The interface of every home that can be interrupted.
#[underpass_macros::interface(crate = generated)]
pub(crate) trait AreaAttach {
    /// Attaches an area, and returns the datum by which its requester rings.
    fn attach(&self, layout: u64, area: OwnedFd) -> Result<u64, AttachError>;

    /// Gives an area up. Only requesters in the home's own process need to: others lose theirs
    /// with their binding.
    fn detach(&self, key: u64) -> Result<(), CallError>;
}

impl AreaAttachClient {
    /// Whether the home has died or ended the binding, as far as this domain knows.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.stub.has_ended()
    }

    /// Whether the home is this very process.
    pub(crate) fn is_here(&self) -> bool {
        self.stub.local().is_some()
    }
}
