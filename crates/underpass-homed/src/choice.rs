//! The choice by cost: does an operation copy the object, or have its home execute it?
//!
//! Let a cache line that another processor has written take R times as long to read as one that is
//! here, and an invocation C times as long. Then an operation on n lines is cheaper by access if
//! (R − 1) n < C (Psyche, section 4.1). Lines count, and not references, where caches are coherent
//! (its footnote 5).
//!
//! | file | what it decides |
//! |---|---|
//! | `figures.rs` | R, C and n, and which way is cheaper by them |
//! | `budget.rs` | which operations are timed, so that this takes 1 % of the time at most |
//! | `chooser.rs` | the choice of one operation, as its threads share it |
//! | `explanation.rs` | what a user is told |
//!
//! Nothing here measures by itself: callers say what time it is, and what the home does.

mod budget;
mod chooser;
mod explanation;
mod figures;

pub(crate) use chooser::{Chooser, OperationPlan};
pub use explanation::Explanation;
pub use figures::{ChosenWay, HomeState};
pub(crate) use figures::{CostFigures, InvocationCost};
