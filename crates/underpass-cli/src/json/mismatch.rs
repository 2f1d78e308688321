//! What is wrong with a value.

use serde_json::Value;
use std::fmt;

/// What is wrong with a value, and where.
#[derive(Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// From the outermost part to the innermost.
    path: Vec<String>,
    what: String,
}

impl Mismatch {
    /// This is inside of `part`.
    pub fn within(mut self, part: impl Into<String>) -> Self {
        self.path.insert(0, part.into());
        self
    }
}

impl From<String> for Mismatch {
    fn from(what: String) -> Self {
        Self { path: Vec::new(), what }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.iter().try_for_each(|part| write!(f, "{part}: "))?;
        f.write_str(&self.what)
    }
}

impl std::error::Error for Mismatch {}

/// What a type was expected to be, and what was found instead.
pub(super) fn unlike(expected: impl fmt::Display, found: &Value) -> Mismatch {
    let mut shown = found.to_string();
    if shown.len() > 60 {
        let end = (0..=60).rev().find(|&end| shown.is_char_boundary(end)).unwrap_or(0);
        shown.truncate(end);
        shown.push_str(" ..");
    }
    format!("expected {expected}, found {shown}").into()
}
