//! `underpass bridge`: runs the program of that crate, so that this one needs no HTTP/2.

use clap::Args;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// The program.
const PROGRAM: &str = "underpass-bridge";

/// What is passed on to the program.
#[derive(Debug, Args)]
pub struct BridgeArguments {
    /// As `underpass-bridge --help` says: [--listen ADDR] [--public] NAME
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Becomes the program: the one beside this program, or the one in `$PATH`. Returns why it can't.
pub fn run(arguments: &BridgeArguments) -> String {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
    let program = beside.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(&program).args(&arguments.arguments).exec();
    match error.kind() {
        io::ErrorKind::NotFound => format!(
            "there is no `{PROGRAM}` beside this program or in $PATH; it is a program of its own, since it needs \
             HTTP/2: `cargo install --path crates/underpass-bridge`"
        ),
        _ => format!("{} can't be run: {error}", program.display()),
    }
}
