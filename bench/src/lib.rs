//! The papers' experiments: what Underpass costs, beside what it can't be cheaper than.
//!
//! *Decides:* what is measured and how. Two real processes; every figure beside its limit, the two
//! measured in turns of a few milliseconds in the same run, because hosts move virtual CPUs and
//! clocks change; medians, and ratios of neighbours.
//!
//! *Must not know:* how the runtime works inside. It uses what a user uses, the crate `underpass`,
//! and for the raw limits memory and futexes from `underpass-os`. Table II alone looks into a call:
//! at the channel, and at the wake-up of a thread.
//!
//! A benchmark is a list of scenarios ([`CATALOGUE`]). For each the parent starts two children from
//! its own executable, a client and a server ([`ChildRole`]); they share a page of words ([`raw::shared_words`]);
//! the client measures ([`measure::contest`]) and reports rows ([`Row`]), which the parent passes on
//! ([`run()`]).
//!
//! *Read first:* `measure/contest.rs`, then `urpc/null.rs`.
#![deny(unsafe_code)]

mod calls;
mod catalogue;
mod limits;
mod lrpc;
pub mod measure;
mod othreads;
mod placement;
mod processes;
pub mod raw;
mod report;
mod run;
mod sizes;
mod socket;
mod threads;
mod urpc;

pub use catalogue::{Benchmark, CATALOGUE};
pub use measure::effort::Effort;
pub use placement::{Pinning, Placement};
pub use processes::pair::SUBCOMMAND;
pub use processes::role::{ChildRole, ProcessSide, play};
pub use report::machine::Machine;
pub use report::row::{Figures, Row};
pub use report::summary::Summary;
pub use report::table::ResultTable;
pub use run::{RunObserver, RunOptions, run};

/// Why a benchmark can't be run.
pub type BenchError = Box<dyn std::error::Error + Send + Sync>;
