//! Reports errors from one test process to another, by the name of the variant, which `Debug` does
//! not show.

use std::fmt::Debug;
use underpass::{CallError, Error, ImportError, ShareError};

/// An error that has variants.
pub(crate) trait Told {
    /// The variant and its data.
    fn told(&self) -> String;
}

/// The value, or the error by its variant.
pub(crate) fn told<T: Debug, E: Told>(result: Result<T, E>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(e) => e.told(),
    }
}

impl Told for CallError {
    fn told(&self) -> String {
        let (variant, outcome) = match self {
            Self::PeerDied(outcome) => ("PeerDied", outcome),
            Self::Closed(outcome) => ("Closed", outcome),
            Self::Revoked(outcome) => ("Revoked", outcome),
            Self::Deadline(outcome) => ("Deadline", outcome),
            Self::Abandoned(outcome) => ("Abandoned", outcome),
            Self::Cancelled(outcome) => ("Cancelled", outcome),
            Self::Captured(outcome) => ("Captured", outcome),
            Self::Dropped(outcome) => ("Dropped", outcome),
            other => return other.to_string(),
        };
        format!("{variant}({outcome:?})")
    }
}

impl Told for ImportError {
    fn told(&self) -> String {
        let variant = match self {
            Self::NotExported(_) => "NotExported",
            Self::Dead(_) => "Dead",
            Self::Lapsed => "Lapsed",
            Self::PermissionDenied(_) => "PermissionDenied",
            Self::NotAuthorized(..) => "NotAuthorized",
            Self::Limit(..) => "Limit",
            Self::Refused(..) => "Refused",
            Self::System(..) => "System",
            _ => "Other",
        };
        format!("{variant}({self})")
    }
}

impl Told for ShareError {
    fn told(&self) -> String {
        match self {
            Self::NotAllowed => "NotAllowed".to_owned(),
            Self::NoRoom => "NoRoom".to_owned(),
            Self::Here => "Here".to_owned(),
            other => other.to_string(),
        }
    }
}

impl Told for Error {
    fn told(&self) -> String {
        match self {
            Self::Call(e) => e.told(),
            Self::Import(e) => e.told(),
            other => other.to_string(),
        }
    }
}
