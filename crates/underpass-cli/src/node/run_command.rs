//! `underpass node run`: a command that the server pins to the processors that it grants.

use anyhow::Context;
use clap::Args;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use underpass_node::pinned::RunnerConnection;
use underpass_os::{ChildEnd, Directory, Poller, SignalFile, children, signal_file};

/// The arguments of `underpass node run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// The share of this command, in relation to that of other domains
    #[arg(long, default_value_t = 1, value_name = "WEIGHT", value_parser = clap::value_parser!(u16).range(1..=1000))]
    weight: u16,
    /// The command, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const SIGNALS: u64 = 0;
const SERVER: u64 = 1;
/// The time between two looks for a server, in ns.
const AGAIN: u64 = 1_000_000_000;

/// Runs the command, and returns its exit status.
///
/// # Errors
/// The command cannot be started.
pub fn run(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let wanted: Vec<i32> = signal_file::FOR_PROGRAMS.into_iter().chain([signal_file::CHILD]).collect();
    let signals = SignalFile::new(&wanted).context("cannot wait for signals")?;
    children::adopt_orphans().context("cannot adopt orphans")?;
    let poller = Poller::new()?;
    poller.add(&signals, SIGNALS)?;
    let mut runner = Runner { weight: arguments.weight, poller, server: None };
    // Before the command begins, so that it never runs beside what it is granted.
    runner.join();
    if runner.server.is_none() {
        eprintln!(
            "underpass: no server runs yet (see `underpass node`); the command takes part once one does"
        );
    }
    let (program, rest) = arguments.command.split_first().context("there is no command")?;
    let mut command = Command::new(program);
    command.args(rest);
    signals.unblock_in(&mut command);
    let child = match command.spawn() {
        Ok(child) => child.id(),
        Err(error) => {
            eprintln!("underpass: cannot run {}: {error}", program.display());
            // As shells say it.
            return Ok(ExitCode::from(if error.kind() == ErrorKind::NotFound { 127 } else { 126 }));
        }
    };
    Ok(ExitCode::from(runner.wait(child, &signals)?.status()))
}

struct Runner {
    weight: u16,
    poller: Poller,
    server: Option<RunnerConnection>,
}

impl Runner {
    /// Looks for a server.
    fn join(&mut self) {
        let Ok(server) = RunnerConnection::join(&Directory::from_environment(), self.weight) else { return };
        if self.poller.add(&server, SERVER).is_ok() {
            self.server = Some(server);
        }
    }

    /// Waits for the command, passes signals on, and takes part with each server that comes.
    fn wait(&mut self, child: u32, signals: &SignalFile) -> anyhow::Result<ChildEnd> {
        loop {
            let timeout = self.server.is_none().then_some(AGAIN);
            self.poller.wait(timeout).context("cannot wait for the command")?;
            while let Some(signal) = signals.read() {
                // Those of a terminal come to the command as well.
                if signal.number != signal_file::CHILD && signal.is_from_process {
                    // It was not waited for, so the number is its own.
                    let _ = children::send(child, signal.number);
                }
            }
            while let Some((ended, end)) = children::take_ended() {
                if ended == child {
                    return Ok(end);
                }
            }
            if self.server.as_ref().is_some_and(RunnerConnection::is_over) {
                self.server = None;
            } else if self.server.is_none() {
                self.join();
            }
        }
    }
}

/// Has the command replace this process.
///
/// # Errors
/// It cannot be started.
pub fn replace_by(mut command: Command) -> anyhow::Error {
    anyhow::Error::new(command.exec()).context("cannot run the command")
}
