//! The errors of connecting, sending and receiving. Their variants have the names of
//! `underpass_sync::mpmc`.

use crate::open::OpenRefused;
use std::error::Error;
use std::fmt;
use std::io;
use underpass_rpc::{CallError, ImportError};

/// Why a sender could not connect to a port.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The name could not be imported. Each kind has its remedy.
    Import(ImportError),
    /// The owner has ended or did not answer. *Remedy:* connect again.
    Call(CallError),
    /// The owner refuses this sender a lane.
    Refused(OpenRefused),
    /// This domain has no room for the lane: raise its limits on memory or open files.
    System(io::Error),
}

/// Why a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortSendError {
    /// The lane is full: try again, or wait with `send`.
    Full,
    /// The lane was full all the time: wait longer.
    Timeout,
    /// The lane has ended, since the owner has dropped its receivers, revoked the binding or died.
    /// [`PortSender::unreceived`](crate::PortSender::unreceived) returns what it has not received.
    Disconnected,
    /// The thread was asked to end while it waited: let it end.
    Cancelled,
    /// The message is longer than the port allows, or contains an open file. *Remedy:* send less,
    /// or have the owner set [`PortOptions::longest`](crate::PortOptions::longest).
    TooLong,
    /// The system has refused memory for the lane. *Remedy:* give this domain or the machine more.
    NoMemory,
}

/// Why nothing was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortRecvError {
    /// No message is there: try again, or wait with `recv`.
    Empty,
    /// No message came in time: wait longer.
    Timeout,
    /// The port's service was dropped, and all lanes have ended.
    Disconnected,
    /// The thread was asked to end while it waited: let it end.
    Cancelled,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Import(e) => write!(f, "the port can't be imported: {e}"),
            Self::Call(e) => write!(f, "the owner of the port has given no lane: {e}"),
            Self::Refused(why) => write!(f, "the owner of the port gives no lane: {why}"),
            Self::System(e) => {
                write!(f, "this domain has no room for a lane: {e}; see `ulimit -n` and `ulimit -v`")
            }
        }
    }
}

impl Error for ConnectError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Import(e) => Some(e),
            Self::Call(e) => Some(e),
            Self::Refused(e) => Some(e),
            Self::System(e) => Some(e),
        }
    }
}

impl fmt::Display for PortSendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the message was not sent: the port is full; wait with `send`",
            Self::Timeout => "the message was not sent: the port was full all the time; wait longer",
            Self::Disconnected => {
                "the message was not sent: the port has no receivers any more; connect again"
            }
            Self::Cancelled => "the message was not sent: the thread was cancelled; let it end",
            Self::TooLong => {
                "the message was not sent: it is longer than the port allows; see `PortOptions::longest`"
            }
            Self::NoMemory => {
                "the message was not sent: the system has refused memory for it; give the machine more"
            }
        })
    }
}

impl Error for PortSendError {}

impl fmt::Display for PortRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "no message: the port is empty; wait with `recv`",
            Self::Timeout => "no message: the port was empty all the time; wait longer",
            Self::Disconnected => "no message: the port is not served any more, and all senders are gone",
            Self::Cancelled => "no message: the thread was cancelled; let it end",
        })
    }
}

impl Error for PortRecvError {}
