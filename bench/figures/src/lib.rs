//! What every shown figure needs: a summary of its samples, the machine it comes from, and a
//! drawing.
//!
//! *Decides:* how samples become one figure, and what is told of a machine. *Must not know:* what
//! is measured, and how.
//!
//! *Read first:* `summary.rs`.
#![forbid(unsafe_code)]

mod machine;
mod summary;
mod svg;

pub use machine::{Machine, MachineSettings};
pub use summary::Summary;
pub use svg::{Anchor, Sheet, escaped, tick};
