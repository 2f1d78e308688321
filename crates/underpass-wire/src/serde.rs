//! Values that `serde` knows and Underpass doesn't.
