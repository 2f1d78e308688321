//! The protocols of this crate under the model checker loom. CONTRIBUTING.md says how to run them.
//! Without loom this is empty.
#![cfg(underpass_loom)]

mod deferral;
mod ends;
mod loans;
mod permits;
mod sleep;
