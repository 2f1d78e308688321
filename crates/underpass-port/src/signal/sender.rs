//! Sending signals.

use super::handlers::SIGNALS;
use super::ways::{Way, WayCounts, Ways};
use crate::arrival::WhyEnded;
use crate::errors::{ConnectError, PortSendError};
use crate::open::PortOpenClient;
use crate::sender_end::SharedEnd;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use underpass_channel::COUNTS;
use underpass_os::cpu;

/// The right to signal a domain. Clones share it, with its credits.
///
/// # Examples
/// See the [module](super).
#[derive(Clone)]
pub struct SignalSender {
    end: SharedEnd,
    ways: Arc<WayCounts>,
}

impl SignalSender {
    /// Connects to the domain that exports its signals as `name`.
    ///
    /// # Errors
    /// [`ConnectError`], each variant with its remedy.
    pub fn connect(name: &str) -> Result<Self, ConnectError> {
        Self::over(PortOpenClient::import(name).map_err(ConnectError::Import)?)
    }

    /// Connects to the domain that exports its signals as `name`, or that will within `time`.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), when the time is over.
    pub fn connect_within(name: &str, time: Duration) -> Result<Self, ConnectError> {
        Self::over(PortOpenClient::import_within(name, time).map_err(ConnectError::Import)?)
    }

    fn over(stub: PortOpenClient) -> Result<Self, ConnectError> {
        Ok(Self { end: SharedEnd::connect(stub, SIGNALS)?, ways: Arc::default() })
    }

    /// Sends a signal of a queued kind. It never blocks. If the receiver has no handler for the
    /// kind, the signal has no effect.
    ///
    /// # Errors
    /// [`PortSendError::Full`] if there is no credit: the receiver has not handled as many signals
    /// of this sender as may be queued. [`PortSendError::Disconnected`] if the receiver is gone or
    /// has revoked the right. [`PortSendError::NoMemory`].
    #[inline]
    pub fn signal(&self, kind: u64, datum: u64) -> Result<Way, PortSendError> {
        let (_, rang) = self.end.try_send_told(&(kind, datum))?;
        Ok(self.went(rang))
    }

    /// Adds `more` to a coalescing kind, 0 to 63. It never blocks, and is never full. The handler
    /// learns the sum.
    ///
    /// # Errors
    /// [`PortSendError::Disconnected`] if the receiver is gone or has revoked the right.
    ///
    /// # Panics
    /// If there is no such kind.
    #[inline]
    pub fn count(&self, kind: usize, more: u64) -> Result<Way, PortSendError> {
        assert!(kind < COUNTS, "coalescing kinds are numbered from 0 to {}, and {kind} is none", COUNTS - 1);
        let rang = self.end.count(kind, more)?;
        Ok(self.went(rang))
    }

    /// How the signals of this sender and its clones were delivered.
    pub fn ways(&self) -> Ways {
        self.ways.get()
    }

    /// The number of this sender's lane, as the handlers see it.
    pub fn lane(&self) -> u64 {
        self.end.number()
    }

    /// Why nothing can be signalled any more. `None` if something can. It asks the receiver, which
    /// takes as long as a call, but no longer than 2 s.
    pub fn ended(&self) -> Option<WhyEnded> {
        self.end.why_ended()
    }

    #[inline]
    fn went(&self, rang: bool) -> Way {
        let way = if rang { self.give_way() } else { Way::Silent };
        self.ways.add(way);
        way
    }

    /// The receiver was rung for. If it has no other processor, gives it this one.
    #[cold]
    fn give_way(&self) -> Way {
        if !cpu::is_only_cpu_of(self.end.owner(), cpu::current()) {
            return Way::Woken;
        }
        cpu::give_way();
        Way::Given
    }
}

impl fmt::Debug for SignalSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignalSender")
            .field("lane", &self.lane())
            .field("ways", &self.ways())
            .finish_non_exhaustive()
    }
}
