//! The steps on pages under the model checker loom. CONTRIBUTING.md says how to run them. Without
//! loom this is empty.
#![cfg(underpass_loom)]

mod asking;
mod page;
mod registration;
