//! Why an object can't be read or published.

use crate::object::ObjectVersion;
use std::error::Error;
use std::fmt;
use std::io;
use underpass_rpc::{CallError, ImportError};

/// Why an object could not be imported.
#[derive(Debug)]
#[non_exhaustive]
pub enum ObjectImportError {
    /// There is no such export, or this domain may not have it. *Remedy:* as of the
    /// [`ImportError`].
    Import(ImportError),
    /// The home did not answer. *Remedy:* as of the [`CallError`].
    Call(CallError),
    /// The object is of another type. *Remedy:* build both sides from the same source of the type.
    OtherType,
    /// The home has no open files left. *Remedy:* raise its limit (`ulimit -n`).
    NoResources,
    /// The home's memory can't be used. *Remedy:* as the text says.
    Memory(io::Error),
}

impl fmt::Display for ObjectImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Import(e) => e.fmt(f),
            Self::Call(e) => e.fmt(f),
            Self::OtherType => f.write_str(
                "the object is of another type; build both sides from the same source of its type",
            ),
            Self::NoResources => {
                f.write_str("the object's home has no open files left; raise its limit (`ulimit -n`)")
            }
            Self::Memory(e) => write!(f, "the object's memory can't be used: {e}"),
        }
    }
}

impl Error for ObjectImportError {}

/// Why [`access`](crate::HomedObject::access) returned no version, or only the last one.
#[must_use]
#[non_exhaustive]
pub enum HomedError<T> {
    /// The home has died or has ended the object. This is its last version. *Remedy:* use it, or
    /// wait for a new home ([`renew_within`](crate::HomedObject::renew_within)).
    HomeDied(Box<ObjectVersion<T>>),
    /// The home has taken this domain's right to the object away. *Remedy:* ask its owner.
    Revoked,
    /// The home has overwritten each version before it was copied. *Remedy:* try again; if that
    /// does not help, the home is faulty.
    Overtaken,
    /// What the home has written is no value of the type. *Remedy:* end the home, which is faulty.
    Invalid,
    /// The system has no memory for the object any more. *Remedy:* free memory, and import again.
    NoMemory,
    /// A forked child has no objects. *Remedy:* import in the child.
    Forked,
}

impl<T> HomedError<T> {
    /// The last version, if the home has died.
    pub fn last(self) -> Option<ObjectVersion<T>> {
        match self {
            Self::HomeDied(last) => Some(*last),
            _ => None,
        }
    }

    fn text(&self) -> &'static str {
        match self {
            Self::HomeDied(_) => "the object's home has died; use its last version, or wait for a new home",
            Self::Revoked => "the object's home has revoked the right to it; ask its owner",
            Self::Overtaken => "the home changes the object faster than it can be copied; try again",
            Self::Invalid => "what the home has written is no value of the object's type; end the home",
            Self::NoMemory => "the system has no memory for the object; free some, and import it again",
            Self::Forked => "a forked child has no objects; import the object in the child",
        }
    }
}

impl<T> fmt::Debug for HomedError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HomeDied(last) => f.debug_tuple("HomeDied").field(&last.number()).finish(),
            Self::Revoked => f.write_str("Revoked"),
            Self::Overtaken => f.write_str("Overtaken"),
            Self::Invalid => f.write_str("Invalid"),
            Self::NoMemory => f.write_str("NoMemory"),
            Self::Forked => f.write_str("Forked"),
        }
    }
}

impl<T> fmt::Display for HomedError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl<T> Error for HomedError<T> {}

/// Why a home could not publish a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PublishError {
    /// A forked child is no home. *Remedy:* make an object of the child's own.
    Forked,
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forked => f.write_str("a forked child is no home; make an object of its own"),
        }
    }
}

impl Error for PublishError {}
