//! What becomes of a lent value.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::Schema;

/// A type of which an argument can be a reference: generated code finds by this what arrives.
pub trait Lent {
    /// What the server gets, and lends to the implementation.
    type Owned: Schema;
}

impl<T: Schema> Lent for T {
    type Owned = T;
}

impl Lent for Path {
    type Owned = PathBuf;
}

impl Lent for OsStr {
    type Owned = OsString;
}
