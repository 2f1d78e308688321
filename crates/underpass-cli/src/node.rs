//! `underpass node`: the activation server, and what it says of itself.

use anyhow::Context;
use clap::{Args, Subcommand};
use serde::Deserialize;
use std::io::ErrorKind;
use std::time::Duration;
use underpass_node::server::{NodeServer, NodeServerEnd, ask_status};
use underpass_os::{Directory, cpu, end_signal, quota};

/// The arguments of `underpass node`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct NodeArguments {
    #[command(subcommand)]
    command: Option<NodeCommand>,
    /// Takes over from a server that runs already
    #[arg(long)]
    replace: bool,
    /// How many processors to divide, instead of those that this process may use
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    processors: Option<u32>,
}

#[derive(Debug, Subcommand)]
enum NodeCommand {
    /// Says which domains take part, and what each has and wants
    Status {
        /// In JSON
        #[arg(long)]
        json: bool,
    },
}

/// A server that does not answer for so long is stopped or stuck.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs the command.
///
/// # Errors
/// A server runs already, none runs, or the system refuses something.
pub fn run(arguments: &NodeArguments) -> anyhow::Result<()> {
    match &arguments.command {
        None => serve(arguments),
        Some(NodeCommand::Status { json }) => show_status(*json),
    }
}

/// The processors that this process may use.
fn usable() -> u32 {
    let cpus = cpu::allowed().map_or(1, |cpus| cpus.len());
    cpus.min(quota::processors().unwrap_or(usize::MAX)).max(1) as u32
}

fn serve(arguments: &NodeArguments) -> anyhow::Result<()> {
    let directory = Directory::from_environment();
    let signals = end_signal::catch().context("cannot handle SIGTERM and SIGINT")?;
    let processors = arguments.processors.unwrap_or_else(usable);
    let shown = directory.path().display().to_string();
    let server =
        NodeServer::start(&directory, processors, arguments.replace, Some(signals)).map_err(|e| {
            match e.kind() {
                ErrorKind::AddrInUse => anyhow::anyhow!(
                    "a server runs in {shown} already; see `underpass node status`, or take over with `underpass node --replace`"
                ),
                _ => anyhow::Error::new(e).context(format!("cannot run a server in {shown}")),
            }
        })?;
    println!("divides {processors} processors among the domains of {shown}");
    match server.run() {
        NodeServerEnd::Signal => println!("ended by a signal; domains go by their own maximums"),
        NodeServerEnd::Replaced => println!("another server has taken over"),
    }
    Ok(())
}

/// What a server says of itself.
#[derive(Debug, Deserialize)]
struct NodeStatus {
    processors: u32,
    free: u32,
    domains: Vec<DomainStatus>,
}

/// What it says of one domain.
#[derive(Debug, Deserialize)]
struct DomainStatus {
    pid: u32,
    weight: u32,
    processors: u32,
    temporary: u32,
    wanted: u64,
    running: u64,
    asked: u32,
    queueing_delay_us: u64,
    alone: bool,
    obeys: bool,
}

fn show_status(json: bool) -> anyhow::Result<()> {
    let directory = Directory::from_environment();
    let shown = directory.path().display();
    let text = ask_status(&directory, PATIENCE).map_err(|e| match e.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            anyhow::anyhow!("no server runs in {shown}; start one with `underpass node`")
        }
        ErrorKind::TimedOut => anyhow::anyhow!("the server in {shown} does not answer; is it stopped?"),
        _ => anyhow::Error::new(e).context(format!("cannot ask the server in {shown}")),
    })?;
    if json {
        println!("{text}");
        return Ok(());
    }
    let status: NodeStatus = serde_json::from_str(&text).context("the server speaks another version")?;
    println!("{} processors, {} of them free", status.processors, status.free);
    println!("    pid  weight  processors  temporary  running  wanted  asked  delay (us)");
    for domain in status.domains {
        let note = match (domain.alone, domain.obeys) {
            (_, false) => "  gets the least: it does not obey",
            (true, true) => "  goes by its own maximum",
            (false, true) => "",
        };
        println!(
            "{:7}  {:6}  {:10}  {:9}  {:7}  {:6}  {:5}  {:10}{note}",
            domain.pid,
            domain.weight,
            domain.processors,
            domain.temporary,
            domain.running,
            domain.wanted,
            domain.asked,
            domain.queueing_delay_us,
        );
    }
    Ok(())
}
