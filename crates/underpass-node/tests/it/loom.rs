//! The steps on pages under the model checker loom. CONTRIBUTING.md says how to run them.

mod asking;
mod page;
mod registration;
