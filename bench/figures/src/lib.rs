//! What every shown figure needs: a summary of its samples, where it comes from, whether it is
//! stale, and a drawing.
//!
//! *Decides:* how samples become one figure, what is told of a machine and of the measured code,
//! and when a row is stale. *Must not know:* how anything is measured.
//!
//! *Read first:* `summary.rs`.
#![forbid(unsafe_code)]

mod date;
mod machine;
mod origin;
mod stale;
mod summary;
mod svg;

pub use machine::{Machine, MachineSettings};
pub use origin::{RowOrigin, SourceTree, SourceVersion};
pub use stale::{StaleReason, StaleRule, counted_operation, mark, rooms_of};
pub use summary::Summary;
pub use svg::{Anchor, Sheet, escaped, tick};
