//! `underpass completions` and `underpass man`: what shells and readers get, made of the command
//! line itself.

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;
use std::io::Write;
use std::path::PathBuf;

/// What `underpass completions` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub struct CompletionsOptions {
    /// The shell
    shell: Shell,
}

/// What `underpass man` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub struct ManOptions {
    /// The folder into which the pages go, such as `/usr/local/share/man/man1`
    folder: PathBuf,
}

/// Prints the completions of a shell.
///
/// # Errors
/// The standard output can't be written.
pub fn complete(options: &CompletionsOptions, mut command: Command) -> Result<()> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command, name, &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}

/// Writes a manual page for each command.
///
/// # Errors
/// The folder can't be made, or a page can't be written.
pub fn write_man(options: &ManOptions, command: Command) -> Result<()> {
    let folder = &options.folder;
    std::fs::create_dir_all(folder).with_context(|| format!("{} can't be made", folder.display()))?;
    let written = clap_mangen::generate_to(command, folder);
    written.with_context(|| format!("a page can't be written into {}", folder.display()))?;
    println!("wrote manual pages into {}", folder.display());
    Ok(())
}
