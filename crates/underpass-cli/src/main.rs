//! The `underpass` command: what looks into running processes and calls them, the activation
//! server, and the doctor.
//!
//! *Decides:* the form of the command line. *Must not know:* how the commands work.
//!
//! *Read first:* `look/mod.rs`. The demo is an example, and the benchmarks are a crate of their own
//! (`bench/`).
#![forbid(unsafe_code)]

mod bridge;
mod call;
mod doctor;
mod json;
mod look;
mod node;
mod pages;
mod send;

use clap::{CommandFactory, Parser, Subcommand};
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
    /// Passes gRPC calls over HTTP/2 on to a server that has no TCP (runs `underpass-bridge`)
    #[command(disable_help_flag = true)]
    Bridge(bridge::BridgeArguments),
    /// Says what this system allows, what is slower or weaker because of it, and what to do
    Doctor(doctor::DoctorOptions),
    /// Divides the processors of this machine among this user's domains (the activation server)
    Node(node::NodeArguments),
    /// Lists the exported names with their servers, their bindings and their calls
    Ls(look::ls::LsOptions),
    /// Shows an exported interface as the trait that one would write, with its documentation
    Describe(look::describe::DescribeOptions),
    /// Says whether a name serves, as an exit status: for scripts and service managers
    Health(look::health::HealthOptions),
    /// Calls a method of an exported interface, with JSON for arguments and results
    Call(call::CallOptions),
    /// Sends messages of JSON to an asynchronous port
    Send(send::SendOptions),
    /// Shows what each process that exports something does, each second
    Top(look::top::TopOptions),
    /// Shows the calls of exports that let themselves be traced
    Trace(look::trace::TraceOptions),
    /// Ends bindings of an export that allows it
    Revoke(look::revoke::RevokeOptions),
    /// Prints completions for a shell
    Completions(pages::CompletionsOptions),
    /// Writes manual pages
    Man(pages::ManOptions),
    /// What the doctor tries in a process of its own
    #[command(name = TRY_NAMESPACES, hide = true)]
    DoctorNamespaces,
}

/// The subcommand by which the doctor starts this program.
const TRY_NAMESPACES: &str = "doctor-namespaces";

/// The exit status of a command that has no other one, or its error. A reader that has seen enough
/// and closed the pipe is no error.
fn done(result: anyhow::Result<()>) -> Result<ExitCode, String> {
    let is_closed_pipe = |e: &anyhow::Error| {
        let mut causes = e.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
        causes.any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
    };
    match result {
        Err(e) if !is_closed_pipe(&e) => Err(told(&e)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// The error with its causes.
fn told(error: &anyhow::Error) -> String {
    format!("{error:#}")
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Bridge(arguments) => Err(bridge::run(&arguments)),
        Command::Doctor(options) => doctor::run(&options).map_err(|e| told(&e)),
        Command::Node(options) => node::run(&options).map_err(|e| told(&e)),
        Command::Ls(options) => look::ls::run(&options).map_err(|e| told(&e)),
        Command::Describe(options) => done(look::describe::run(&options)),
        Command::Health(options) => look::health::run(&options).map_err(|e| told(&e)),
        Command::Call(options) => done(call::run(&options)),
        Command::Send(options) => done(send::run(&options)),
        Command::Top(options) => done(look::top::run(&options)),
        Command::Trace(options) => done(look::trace::run(&options)),
        Command::Revoke(options) => done(look::revoke::run(&options)),
        Command::Completions(options) => done(pages::complete(&options, Arguments::command())),
        Command::Man(options) => done(pages::write_man(&options, Arguments::command())),
        Command::DoctorNamespaces => Ok(doctor::try_namespaces()),
    };
    result.unwrap_or_else(|error| {
        // Parts of it may come from other processes.
        eprintln!("underpass: {}", look::printable(&error));
        ExitCode::FAILURE
    })
}
