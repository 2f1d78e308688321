//! What the system has.

mod supported;
