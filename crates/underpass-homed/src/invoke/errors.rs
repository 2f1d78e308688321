//! Why a home can't be invoked.

use std::error::Error;
use std::fmt;
use std::io;
use underpass_port::ConnectError;
use underpass_rpc::{CallError, ImportError};

/// Why a requester has no connection with a home.
#[derive(Debug)]
#[non_exhaustive]
pub enum InvokerConnectError {
    /// There is no such export, or this domain may not have it. *Remedy:* as of the
    /// [`ImportError`].
    Import(ImportError),
    /// The home can't be signalled. *Remedy:* as of the [`ConnectError`].
    Signals(ConnectError),
    /// The home did not answer. *Remedy:* as of the [`CallError`].
    Call(CallError),
    /// The home has another layout of request areas. *Remedy:* build both sides from the same
    /// source.
    OtherLayout,
    /// There is no memory for the request area. *Remedy:* as the text says.
    Memory(io::Error),
    /// The home can't use the request area. *Remedy:* as the text says.
    Refused(String),
}

impl fmt::Display for InvokerConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Import(e) => e.fmt(f),
            Self::Signals(e) => e.fmt(f),
            Self::Call(e) => e.fmt(f),
            Self::OtherLayout => f.write_str(
                "the home has another layout of request areas; build both sides from the same source",
            ),
            Self::Memory(e) => write!(f, "there is no memory for a request area: {e}"),
            Self::Refused(why) => write!(f, "the home refuses the request area: {why}"),
        }
    }
}

impl Error for InvokerConnectError {}

/// Why an invocation has no results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvokeError {
    /// The calling thread is in a critical section or a handler, in which incoming invocations are
    /// disabled. *Remedy:* leave it first.
    Masked,
    /// The calling thread holds a [hybrid lock](crate::lock) of another domain's object, which
    /// handlers could want. *Remedy:* release it first.
    HoldsLock,
    /// The deadline passed. The operation may have been executed, or may be later. *Remedy:* make
    /// it harmless to execute twice, or ask the home what it has done.
    Deadline,
    /// The home has died, has ended, or has revoked the right. The operation may have been
    /// executed. *Remedy:* connect to a new home.
    HomeDied,
    /// The home has no handler for the operation. *Remedy:* build both sides from the same source.
    NoSuchOperation,
    /// The handler has panicked. *Remedy:* see the home's standard error.
    Panicked,
    /// A forked child has no connection. *Remedy:* connect in the child.
    Forked,
}

impl fmt::Display for InvokeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Masked => "invocations are disabled in a critical section and in a handler; leave it first",
            Self::HoldsLock => {
                "the calling thread holds a hybrid lock that handlers could want; release it first"
            }
            Self::Deadline => {
                "the deadline passed, and the operation may be executed still; look whether the home is stopped"
            }
            Self::HomeDied => "the home has died and may have executed the operation; connect to a new home",
            Self::NoSuchOperation => {
                "the home has no handler for the operation; build both sides from the same source"
            }
            Self::Panicked => "the handler has panicked; see the home's standard error",
            Self::Forked => "a forked child has no connection; connect in the child",
        })
    }
}

impl Error for InvokeError {}
