//! The papers' experiments: what Underpass costs, compared with the least that it could cost.
//!
//! *Decides:* what is measured and how. There are two real processes. Every figure is compared with
//! its limit. Both are measured in alternating turns of a few milliseconds in the same run, because
//! hosts move virtual CPUs and clocks change. Results are medians, and ratios of neighbouring
//! turns.
//!
//! *Must not know:* how the runtime works inside. It uses the crate `underpass`, as users do. The
//! raw limits use memory and futexes of `underpass-os`. Table II alone looks inside a call: at the
//! channel, and at the wake-up of a thread.
//!
//! A benchmark is a list of scenarios ([`CATALOGUE`]). For each scenario the parent starts two
//! children from its own executable, a client and a server ([`ChildRole`]). They share a page of
//! words ([`raw::shared_words`]). The client measures ([`measure::contest`]) and reports rows
//! ([`Row`]). The parent passes the rows on ([`run()`]).
//!
//! *Read first:* `measure/contest.rs`, then `urpc/null.rs`.
#![deny(unsafe_code)]

mod calls;
mod catalogue;
pub mod claims;
mod compare;
mod devices;
#[cfg(feature = "grpc")]
mod grpc;
mod limits;
mod lrpc;
pub mod measure;
mod node;
mod operations;
mod othreads;
mod placement;
mod processes;
mod psyche;
mod raven;
pub mod raw;
mod report;
mod rpc_peers;
mod run;
mod sizes;
mod socket;
mod streams;
mod threads;
mod urpc;

pub use catalogue::{Benchmark, CATALOGUE};
pub use compare::{CaseChange, Compared, Comparison, compare};
pub use measure::effort::Effort;
pub use placement::{Pinning, Placement};
pub use processes::pair::SUBCOMMAND;
pub use processes::role::{ChildRole, ProcessSide, play};
pub use report::built::built_version;
pub use report::row::{Figures, Row};
pub use report::table::ResultTable;
pub use report::verdict::ClaimVerdict;
pub use rpc_peers::{PeersOptions, PeersPace, PeersReport, PeersScope, peers};
pub use run::{RunObserver, RunOptions, run};
pub use underpass_figures::{Machine, MachineSettings, RowOrigin, SourceTree, SourceVersion, Summary};

/// Why a benchmark cannot be run.
pub type BenchError = Box<dyn std::error::Error + Send + Sync>;
