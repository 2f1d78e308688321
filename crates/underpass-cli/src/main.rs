//! The `underpass` command: the demo, the benchmarks, the doctor and the activation server.
//!
//! *Decides:* the form of the command line. *Must not know:* how the commands work.
//!
//! *Read first:* `demo/mod.rs`. The benchmarks are a crate of their own, `bench/`.
#![forbid(unsafe_code)]

mod bench;
mod comparison;
mod curves;
mod demo;
mod doctor;
mod node;
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
    /// Says what this system allows, what is slower or weaker because of it, and what to do
    Doctor(doctor::DoctorOptions),
    /// Divides the processors of this machine among this user's domains (the activation server)
    Node(node::NodeArguments),
    /// What the doctor tries in a process of its own
    #[command(name = TRY_NAMESPACES, hide = true)]
    DoctorNamespaces,
    /// One of the two processes of a benchmark
    #[command(name = underpass_bench::SUBCOMMAND, hide = true)]
    BenchRole {
        /// The command to run.
        role: String,
    },
}

/// The subcommand by which the doctor starts this program.
const TRY_NAMESPACES: &str = "doctor-namespaces";

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Demo(options) => {
            demo::run(&options).map_err(|e| format!("{e:#}")).map(|()| ExitCode::SUCCESS)
        }
        Command::Bench(options) => {
            bench::run(&options).map_err(|e| e.to_string()).map(|()| ExitCode::SUCCESS)
        }
        Command::Doctor(options) => doctor::run(&options).map_err(|e| format!("{e:#}")),
        Command::Node(options) => {
            node::run(&options).map_err(|e| format!("{e:#}")).map(|()| ExitCode::SUCCESS)
        }
        Command::DoctorNamespaces => Ok(doctor::try_namespaces()),
        Command::BenchRole { role } => underpass_bench::play(&role).map_err(|e| e.to_string()),
    };
    done.unwrap_or_else(|error| {
        eprintln!("underpass: {error}");
        ExitCode::FAILURE
    })
}
