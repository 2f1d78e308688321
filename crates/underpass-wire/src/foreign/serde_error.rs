//! The error type that serde gets.

use crate::DecodeError;
use std::fmt::{self, Display};

/// A [`DecodeError`], with the traits that serde asks of errors.
#[derive(Debug)]
pub(super) struct SerdeError(pub(super) DecodeError);

impl Display for SerdeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for SerdeError {}

impl serde::ser::Error for SerdeError {
    fn custom<T: Display>(_: T) -> Self {
        Self(DecodeError::Serde)
    }
}

impl serde::de::Error for SerdeError {
    fn custom<T: Display>(_: T) -> Self {
        Self(DecodeError::Serde)
    }
}

impl From<DecodeError> for SerdeError {
    fn from(error: DecodeError) -> Self {
        Self(error)
    }
}

impl From<SerdeError> for DecodeError {
    fn from(error: SerdeError) -> Self {
        error.0
    }
}
