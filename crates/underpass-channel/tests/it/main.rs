//! Models of the rings, the doorbells and the lanes.
#![cfg(underpass_loom)]

mod loom;
