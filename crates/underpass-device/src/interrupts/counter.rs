//! Where the interrupts of a vector are counted until they are taken.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use underpass_os::{EventFd, UioDevice};

/// The event counter of a vector.
#[derive(Debug)]
pub(crate) enum EventCounter {
    /// An `eventfd` of this domain, which the device signals.
    Own(EventFd),
    /// The device's own file. The kernel masks the interrupt when it counts it.
    Uio(Arc<UioDevice>),
}

impl EventCounter {
    /// Takes the count, which is zero afterwards.
    pub(crate) fn take(&self) -> io::Result<u64> {
        match self {
            Self::Own(events) => events.take(),
            Self::Uio(device) => device.take(),
        }
    }

    /// Lets the device count once more. This comes after the handler, which has told the device
    /// that its line was seen.
    pub(crate) fn unmask(&self) {
        if let Self::Uio(device) = self {
            device.unmask();
        }
    }

    /// What the device is told to signal, if it has to be told.
    pub(crate) fn to_signal(&self) -> Option<&EventFd> {
        match self {
            Self::Own(events) => Some(events),
            Self::Uio(_) => None,
        }
    }
}

impl AsFd for EventCounter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Own(events) => events.as_fd(),
            Self::Uio(device) => device.as_fd(),
        }
    }
}
