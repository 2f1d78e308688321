//! `underpass node env`: the environment by which `make` and `cargo` find the server's jobserver.

use crate::node::run_command::replace_by;
use crate::node::{NodeStatus, PATIENCE, asked};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};
use underpass_node::server::jobserver_pipe;
use underpass_os::Directory;

/// The arguments of `underpass node env`.
#[derive(Debug, Args)]
pub struct EnvironmentArguments {
    /// How clients reach the jobserver: `fifo` by its path (GNU make 4.4, cargo), or `pipe` by two
    /// open files (GNU make 4.2, too). By default what the installed `make` knows
    #[arg(long, value_enum)]
    by: Option<JobserverForm>,
    /// Runs this command in that environment, instead of printing it for a shell
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// How clients reach a jobserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum JobserverForm {
    Fifo,
    Pipe,
}

/// The files of the pipe, in a shell and in the command: shells know numbers below 10 alone.
const FILES: (u32, u32) = (8, 9);

/// Prints the environment, or runs the command in it.
///
/// # Errors
/// No server runs, it has no jobserver, or the command cannot be started.
pub fn run(arguments: &EnvironmentArguments) -> anyhow::Result<ExitCode> {
    let directory = Directory::from_environment();
    let status: NodeStatus =
        serde_json::from_str(&asked(&directory, PATIENCE)?).context("the server speaks another version")?;
    if !status.domains.iter().any(|domain| domain.kind == "jobserver") {
        bail!("the server has no jobserver; start it with `underpass node --jobserver`");
    }
    let pipe = std::fs::canonicalize(jobserver_pipe(&directory)).context("the jobserver's pipe is gone")?;
    let form = arguments.by.unwrap_or_else(form_of_make);
    let makeflags = makeflags(form, status.processors, &pipe);
    if arguments.command.is_empty() {
        println!("{}", for_shell(form, &makeflags, &pipe));
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = match form {
        JobserverForm::Fifo => Command::new(&arguments.command[0]),
        JobserverForm::Pipe => {
            let mut shell = Command::new("sh");
            let (read, write) = FILES;
            let script = format!("exec {read}<>\"$1\" {write}<>\"$1\"; shift; exec \"$@\"");
            shell.arg("-c").arg(script).arg("sh").arg(&pipe).arg(&arguments.command[0]);
            shell
        }
    };
    command.args(&arguments.command[1..]).env("MAKEFLAGS", &makeflags);
    // Cargo prefers this one, which may be of an outer cargo.
    command.env_remove("CARGO_MAKEFLAGS").env_remove("MFLAGS");
    Err(replace_by(command))
}

fn makeflags(form: JobserverForm, processors: u32, pipe: &Path) -> String {
    let (read, write) = FILES;
    match form {
        JobserverForm::Fifo => format!("-j{processors} --jobserver-auth=fifo:{}", pipe.display()),
        JobserverForm::Pipe => format!("-j{processors} --jobserver-auth={read},{write}"),
    }
}

fn for_shell(form: JobserverForm, makeflags: &str, pipe: &Path) -> String {
    let (read, write) = FILES;
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    let pipe = quoted(&pipe.display().to_string());
    let open = match form {
        JobserverForm::Fifo => String::new(),
        JobserverForm::Pipe => format!("exec {read}<>{pipe} {write}<>{pipe}; "),
    };
    format!("{open}unset CARGO_MAKEFLAGS MFLAGS; export MAKEFLAGS={}", quoted(makeflags))
}

/// What the installed `make` knows. Without any, clients are those of cargo.
fn form_of_make() -> JobserverForm {
    let said = Command::new("make").arg("--version").output();
    match said.ok().and_then(|said| version_of_make(&String::from_utf8_lossy(&said.stdout))) {
        Some(version) if version < (4, 4) => JobserverForm::Pipe,
        _ => JobserverForm::Fifo,
    }
}

fn version_of_make(said: &str) -> Option<(u32, u32)> {
    let version = said.lines().next()?.strip_prefix("GNU Make ")?;
    let mut numbers = version.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_make_is_read() {
        assert_eq!(version_of_make("GNU Make 4.3\nBuilt for x86_64-pc-linux-gnu\n"), Some((4, 3)));
        assert_eq!(version_of_make("GNU Make 4.4.1\n"), Some((4, 4)));
        assert_eq!(version_of_make("bmake 1"), None);
        assert_eq!(version_of_make(""), None);
    }

    #[test]
    fn a_shell_gets_one_line() {
        let pipe = Path::new("/run/it's/.jobserver");
        let line = |form| for_shell(form, &makeflags(form, 2, pipe), pipe);
        assert_eq!(
            line(JobserverForm::Fifo),
            r"unset CARGO_MAKEFLAGS MFLAGS; export MAKEFLAGS='-j2 --jobserver-auth=fifo:/run/it'\''s/.jobserver'"
        );
        assert_eq!(
            line(JobserverForm::Pipe),
            r"exec 8<>'/run/it'\''s/.jobserver' 9<>'/run/it'\''s/.jobserver'; unset CARGO_MAKEFLAGS MFLAGS; export MAKEFLAGS='-j2 --jobserver-auth=8,9'"
        );
    }
}
