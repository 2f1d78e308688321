//! Why a message has no reply. The variants have the names of `underpass_sync::mpmc`.

use crate::arrival::WhyEnded;
use crate::errors::ConnectError;
use crate::open::OpenRefused;
use crate::sync::interface::PortRefusal;
use std::error::Error;
use std::fmt;
use underpass_rpc::{CallError, Outcome};

/// Why a message has no reply.
///
/// [`outcome`](Self::outcome) says what has become of the message. After
/// [`Outcome::NotStarted`] nobody has received it or ever will, so it may be sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyncSendError {
    /// As many messages of this sender are under way as the port allows: try again, or wait with
    /// `send`.
    Full,
    /// The time is over. *Remedy:* wait longer, or find out why the receiver is slow.
    Timeout(Outcome),
    /// The port has no receivers any more, or the binding has ended. *Remedy:* connect again, and
    /// send what was not received.
    Disconnected(WhyEnded, Outcome),
    /// The thread was asked to end while it waited, or nobody wants the work that it does any more:
    /// let it end.
    Cancelled(Outcome),
    /// The message is longer than the port allows. *Remedy:* send less, or have the owner set
    /// [`SyncPortOptions::longest`](crate::sync::SyncPortOptions::longest).
    TooLong,
    /// The receiver has the message, and has dropped its [`Reply`](crate::sync::Reply).
    Dropped,
    /// Anything else that may happen to a call, with its remedy.
    Call(CallError),
}

impl SyncSendError {
    /// What has become of the message: *not started* means not received, and *executed* means that
    /// the reply was given, but could not be read.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Full | Self::TooLong => Outcome::NotStarted,
            Self::Timeout(outcome) | Self::Disconnected(_, outcome) | Self::Cancelled(outcome) => *outcome,
            Self::Dropped => Outcome::Unknown,
            Self::Call(error) => error.outcome(),
        }
    }

    /// Of a message that waits for room: it was full all the time.
    pub(crate) fn after_waiting(self) -> Self {
        match self {
            Self::Full => Self::Timeout(Outcome::NotStarted),
            error => error,
        }
    }

    /// Of a message that the owner has refused.
    #[cold]
    pub(crate) fn of(refusal: PortRefusal) -> Self {
        let error = match refusal {
            PortRefusal::TooLong => return Self::TooLong,
            PortRefusal::NotReceived => return Self::Disconnected(WhyEnded::Finished, Outcome::NotStarted),
            PortRefusal::Call(error) => error,
        };
        let outcome = error.outcome();
        match error {
            CallError::Deadline(_) => Self::Timeout(outcome),
            CallError::Overloaded => Self::Full,
            CallError::PeerDied(_) => Self::Disconnected(WhyEnded::PeerDied, outcome),
            CallError::Revoked(_) => Self::Disconnected(WhyEnded::Revoked, outcome),
            CallError::Closed(_) | CallError::Captured(_) | CallError::Forked => {
                Self::Disconnected(WhyEnded::Finished, outcome)
            }
            CallError::Cancelled(_) | CallError::Abandoned(_) => Self::Cancelled(outcome),
            CallError::Dropped(_) => Self::Dropped,
            error => Self::Call(error),
        }
    }
}

impl ConnectError {
    /// Of a sender that gets no lane.
    pub(crate) fn of(refusal: PortRefusal) -> Self {
        match refusal {
            PortRefusal::Call(error) => Self::Call(error),
            PortRefusal::TooLong | PortRefusal::NotReceived => Self::Refused(OpenRefused::NoReceivers),
        }
    }
}

impl fmt::Display for SyncSendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let received = match self.outcome() {
            Outcome::NotStarted => "the message was not received",
            Outcome::Unknown => "the message may have been received",
            Outcome::Executed => "the message was received",
        };
        match self {
            Self::Full => write!(f, "{received}: the port is full; wait with `send`"),
            Self::Timeout(_) => write!(f, "{received}: no reply came in time; wait longer"),
            Self::Disconnected(WhyEnded::PeerDied, _) => {
                write!(f, "{received}: the owner of the port has died; connect again")
            }
            Self::Disconnected(WhyEnded::Revoked, _) => {
                write!(f, "{received}: the owner has revoked the binding; connect again if you may")
            }
            Self::Disconnected(..) => {
                write!(f, "{received}: the port has no receivers any more; connect again")
            }
            Self::Cancelled(_) => write!(f, "{received}: the thread was cancelled; let it end"),
            Self::TooLong => {
                write!(f, "{received}: it is longer than the port allows; see `SyncPortOptions::longest`")
            }
            Self::Dropped => f.write_str("the receiver has dropped the reply to the message; ask its author"),
            Self::Call(error) => write!(f, "{received}: {error}"),
        }
    }
}

impl Error for SyncSendError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Call(error) => Some(error),
            _ => None,
        }
    }
}
