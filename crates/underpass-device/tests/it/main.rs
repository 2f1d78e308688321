//! Models of the wait for an interrupt.
#![cfg(underpass_loom)]

mod loom;
