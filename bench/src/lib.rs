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
//! its own executable, a client and a server ([`Role`]); they share a page of words ([`lines`]);
//! the client measures ([`contest`]) and reports rows ([`Row`]), which the parent passes on
//! ([`run()`]).
//!
//! *Read first:* `contest.rs`, then `urpc/null.rs`.
#![deny(unsafe_code)]

mod calls;
mod catalogue;
mod client;
pub mod contest;
mod counted;
mod effort;
mod hand;
mod limits;
#[allow(unsafe_code, reason = "two processes share the words; each block says why it may")]
pub mod lines;
mod lrpc;
mod machine;
mod othreads;
mod pair;
mod peers;
pub mod ping;
mod placement;
mod process;
mod responder;
mod role;
mod row;
mod run;
mod scratch;
mod sizes;
mod socket;
mod summary;
mod table;
mod threads;
mod urpc;

pub use catalogue::{Benchmark, CATALOGUE};
pub use effort::Effort;
pub use machine::Machine;
pub use pair::SUBCOMMAND;
pub use placement::{Pinning, Placement};
pub use role::{Role, Side, play};
pub use row::{Figures, Row};
pub use run::{Listener, Options, run};
pub use summary::Summary;
pub use table::Table;

/// Why a benchmark can't be run.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
