//! The error type that serde gets.

use crate::DecodeError;
use std::fmt::{self, Display};

/// A [`DecodeError`], with the traits that serde asks of errors.
#[derive(Debug)]
pub(super) struct Fault(pub(super) DecodeError);

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Fault {}

impl serde::ser::Error for Fault {
    fn custom<T: Display>(_: T) -> Self {
        Self(DecodeError::Serde)
    }
}

impl serde::de::Error for Fault {
    fn custom<T: Display>(_: T) -> Self {
        Self(DecodeError::Serde)
    }
}

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Self {
        Self(error)
    }
}

impl From<Fault> for DecodeError {
    fn from(fault: Fault) -> Self {
        fault.0
    }
}
