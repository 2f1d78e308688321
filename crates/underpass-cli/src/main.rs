//! The `underpass` command: the demo and the benchmarks.
//!
//! *Decides:* the form of the command line. *Must not know:* how the commands work.
//!
//! *Read first:* `demo/mod.rs`. The benchmarks are a crate of their own, `bench/`.
#![forbid(unsafe_code)]

mod bench;
mod comparison;
mod curves;
mod demo;
mod svg;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Move a trait's implementation into another process and keep calling it like a function.
#[derive(Debug, Parser)]
#[command(name = "underpass", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// An editor, a window manager and a file cache manager in three processes: the URPC paper's
    /// Figure 1 on real work
    Demo(demo::DemoOptions),
    /// Measures what calls cost, beside what they can't be cheaper than
    Bench(bench::BenchArguments),
    /// One of the two processes of a benchmark
    #[command(name = underpass_bench::SUBCOMMAND, hide = true)]
    BenchRole {
        /// The command to run.
        role: String,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Demo(options) => {
            demo::run(&options).map_err(|e| format!("{e:#}")).map(|()| ExitCode::SUCCESS)
        }
        Command::Bench(options) => {
            bench::run(&options).map_err(|e| e.to_string()).map(|()| ExitCode::SUCCESS)
        }
        Command::BenchRole { role } => underpass_bench::play(&role).map_err(|e| e.to_string()),
    };
    done.unwrap_or_else(|error| {
        eprintln!("underpass: {error}");
        ExitCode::FAILURE
    })
}
