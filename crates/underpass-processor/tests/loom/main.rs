//! The protocols of this crate under a model checker. Run as CONTRIBUTING.md says; empty otherwise.
#![cfg(underpass_loom)]

mod deferral;
mod ends;
mod permits;
mod sleep;
