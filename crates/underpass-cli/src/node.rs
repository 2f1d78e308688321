//! `underpass node`: the activation server, what it says of itself, and how programs without the
//! runtime take part.

mod jobserver_environment;
mod run_command;

use anyhow::Context;
use clap::{Args, Subcommand};
use jobserver_environment::EnvironmentArguments;
use run_command::RunArguments;
use serde::Deserialize;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
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
    /// Owns a GNU make jobserver: `make` and `cargo` become one domain (see `underpass node env`)
    #[arg(long)]
    jobserver: bool,
    /// The share of the jobserver's clients, in relation to that of other domains
    #[arg(long, default_value_t = 1, value_name = "WEIGHT", requires = "jobserver", value_parser = clap::value_parser!(u16).range(1..=1000))]
    jobserver_weight: u16,
}

#[derive(Debug, Subcommand)]
enum NodeCommand {
    /// Says which domains take part, and what each has and wants
    Status {
        /// In JSON
        #[arg(long)]
        json: bool,
    },
    /// Runs a command that gets the processors that the server grants, by affinity and niceness
    Run(RunArguments),
    /// Prints the environment in which `make` and `cargo` use the server's jobserver, or runs a
    /// command in it
    Env(EnvironmentArguments),
}

/// A server that does not answer for so long is stopped or stuck.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs the command.
///
/// # Errors
/// A server runs already, none runs, or the system refuses something.
pub fn run(arguments: &NodeArguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        None => serve(arguments),
        Some(NodeCommand::Status { json }) => show_status(*json),
        Some(NodeCommand::Run(arguments)) => return run_command::run(arguments),
        Some(NodeCommand::Env(arguments)) => return jobserver_environment::run(arguments),
    }?;
    Ok(ExitCode::SUCCESS)
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
    let mut server =
        NodeServer::start(&directory, processors, arguments.replace, Some(signals)).map_err(|e| {
            match e.kind() {
                ErrorKind::AddrInUse => anyhow::anyhow!(
                    "a server runs in {shown} already; see `underpass node status`, or take over with `underpass node --replace`"
                ),
                _ => anyhow::Error::new(e).context(format!("cannot run a server in {shown}")),
            }
        })?;
    println!("divides {processors} processors among the domains of {shown}");
    if arguments.jobserver {
        let pipe = server.own_jobserver(arguments.jobserver_weight).context("cannot own a jobserver")?;
        println!("owns the jobserver {}; see `underpass node env`", pipe.display());
    }
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
pub struct DomainStatus {
    /// `domain`, `command` or `jobserver`.
    kind: String,
    /// Its process.
    pub pid: u32,
    weight: u32,
    /// The processors that it has for longer.
    pub processors: u32,
    /// Those that it has for a while, as nobody else wants them.
    pub temporary: u32,
    /// The processors for which it has work.
    pub wanted: u64,
    /// Its activations that run.
    pub running: u64,
    /// Its activations that wait for a processor. A server of an older version does not say.
    #[serde(default)]
    pub parked: u64,
    asked: u32,
    /// How long its work waits for a processor.
    pub queueing_delay_us: u64,
    alone: bool,
    obeys: bool,
}

/// The domains that take part, if a server runs and answers.
pub fn status_if_any() -> Option<Vec<DomainStatus>> {
    let text = ask_status(&Directory::from_environment(), PATIENCE).ok()?;
    serde_json::from_str::<NodeStatus>(&text).ok().map(|status| status.domains)
}

/// What the server in `directory` says of itself.
fn asked(directory: &Directory, patience: Duration) -> anyhow::Result<String> {
    let shown = directory.path().display();
    ask_status(directory, patience).map_err(|e| match e.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            anyhow::anyhow!("no server runs in {shown}; start one with `underpass node`")
        }
        ErrorKind::TimedOut => anyhow::anyhow!("the server in {shown} does not answer; is it stopped?"),
        _ => anyhow::Error::new(e).context(format!("cannot ask the server in {shown}")),
    })
}

fn show_status(json: bool) -> anyhow::Result<()> {
    let text = asked(&Directory::from_environment(), PATIENCE)?;
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{text}")?;
        return Ok(());
    }
    let status: NodeStatus = serde_json::from_str(&text).context("the server speaks another version")?;
    writeln!(out, "{} processors, {} of them free", status.processors, status.free)?;
    writeln!(out, "    pid  kind       weight  processors  temporary  running  wanted  asked  delay (us)")?;
    for domain in status.domains {
        let note = match (domain.alone, domain.obeys) {
            (_, false) => "  gets the least: it does not obey",
            (true, true) => "  goes by its own maximum",
            (false, true) => "",
        };
        writeln!(
            out,
            "{:7}  {:9}  {:6}  {:10}  {:9}  {:7}  {:6}  {:5}  {:10}{note}",
            domain.pid,
            domain.kind,
            domain.weight,
            domain.processors,
            domain.temporary,
            domain.running,
            domain.wanted,
            domain.asked,
            domain.queueing_delay_us,
        )?;
    }
    Ok(())
}
