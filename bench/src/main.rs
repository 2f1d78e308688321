//! The command `underpass-bench`: the papers' experiments, and the report that is made of them.
//!
//! *Decides:* the form of the command line, and how results are shown. *Must not know:* how
//! anything is measured: that is the library's.
//!
//! *Read first:* `command/measure.rs`, then `command/papers/mod.rs`.
#![forbid(unsafe_code)]

mod command;

use clap::Parser;
use command::measure::{self, BenchArguments};
use std::process::ExitCode;

/// Measures what calls, threads and messages cost, beside what they can't be cheaper than.
#[derive(Debug, Parser)]
#[command(name = "underpass-bench", version)]
struct Arguments {
    #[command(flatten)]
    arguments: BenchArguments,
}

fn main() -> ExitCode {
    measure::run(&Arguments::parse().arguments).unwrap_or_else(|error| {
        eprintln!("underpass-bench: {error}");
        ExitCode::FAILURE
    })
}
