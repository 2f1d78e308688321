//! The owned form of a borrowed argument.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::Schema;

/// A type that an argument can be a reference to. Generated code finds by this what arrives.
pub trait Lent {
    /// The type that the server receives, and lends to the implementation.
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
