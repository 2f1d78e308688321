//! Why an object is not bound, and why an operation has no result.

use crate::errors::{HomedError, ObjectImportError};
use crate::invoke::{InvokeError, InvokerConnectError};
use std::error::Error;
use std::fmt;
use underpass_rpc::{CallError, ImportError};

/// Why an object with operations could not be imported.
#[derive(Debug)]
#[non_exhaustive]
pub enum ObjectBindError {
    /// The object itself. *Remedy:* as of the [`ObjectImportError`].
    Object(ObjectImportError),
    /// Its operations. *Remedy:* as of the [`ImportError`].
    Operations(ImportError),
    /// Its operations at interrupt level. *Remedy:* as of the [`InvokerConnectError`].
    Interrupts(InvokerConnectError),
    /// The home did not answer. *Remedy:* as of the [`OperationError`].
    Home(OperationError),
    /// One home after another took the name over, so that no import was complete. *Remedy:* try
    /// again.
    Replaced,
}

impl fmt::Display for ObjectBindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(e) => e.fmt(f),
            Self::Operations(e) => write!(f, "the object's operations can't be imported: {e}"),
            Self::Interrupts(e) => write!(f, "the object's home can't be interrupted: {e}"),
            Self::Home(e) => e.fmt(f),
            Self::Replaced => f.write_str("other homes took the object over during the import; try again"),
        }
    }
}

impl Error for ObjectBindError {}

/// Why an operation of an object has no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum OperationError {
    /// The home has died or has ended the object. Its last version stays readable:
    /// [`HomedObject::access`](crate::HomedObject::access). *Remedy:* use that, or import again.
    HomeDied,
    /// The home has taken this domain's right to the object away. *Remedy:* ask its owner.
    Revoked,
    /// The home has overwritten each version before it was copied. *Remedy:* try again; if that
    /// does not help, the home is faulty.
    Overtaken,
    /// What the home has written is no value of its type. *Remedy:* end the home, which is faulty.
    Invalid,
    /// The system has no memory for the object any more. *Remedy:* free memory, and import again.
    NoMemory,
    /// A forked child has no objects. *Remedy:* import in the child.
    Forked,
    /// The invocation failed. *Remedy:* as of the [`CallError`].
    Call(CallError),
    /// The invocation at interrupt level failed. *Remedy:* as of the [`InvokeError`].
    Interrupt(InvokeError),
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HomeDied => {
                "the object's home has died; use its last version (`access`), or wait for a new home (`renew_within`)"
            }
            Self::Revoked => "the object's home has revoked the right to it; ask its owner",
            Self::Overtaken => "the home changes the object faster than it can be copied; try again",
            Self::Invalid => "what the home has written is no value of its type; end the home",
            Self::NoMemory => "the system has no memory for the object; free some, and import it again",
            Self::Forked => "a forked child has no objects; import the object in the child",
            Self::Call(e) => return e.fmt(f),
            Self::Interrupt(e) => return e.fmt(f),
        })
    }
}

impl Error for OperationError {}

impl From<CallError> for OperationError {
    fn from(e: CallError) -> Self {
        match e {
            CallError::Forked => Self::Forked,
            e => Self::Call(e),
        }
    }
}

impl From<InvokeError> for OperationError {
    fn from(e: InvokeError) -> Self {
        match e {
            InvokeError::Forked => Self::Forked,
            InvokeError::HomeDied => Self::HomeDied,
            e => Self::Interrupt(e),
        }
    }
}

impl<T> From<HomedError<T>> for OperationError {
    fn from(e: HomedError<T>) -> Self {
        match e {
            HomedError::HomeDied(_) => Self::HomeDied,
            HomedError::Revoked => Self::Revoked,
            HomedError::Overtaken => Self::Overtaken,
            HomedError::Invalid => Self::Invalid,
            HomedError::NoMemory => Self::NoMemory,
            HomedError::Forked => Self::Forked,
        }
    }
}
