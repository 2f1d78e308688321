//! The protocols of this crate under the model checker loom. CONTRIBUTING.md says how to run them.

mod deferral;
mod ends;
mod loans;
mod permits;
mod sleep;
