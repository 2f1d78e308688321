//! `underpass revoke`: ends bindings of an export that allows it.

use super::{ask, json_line};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::io::Write;
use underpass::inspect::{BindingView, Inspect};

/// What `underpass revoke` is asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["binding", "pid", "all"]))]
pub struct RevokeOptions {
    /// The name whose bindings end
    name: String,
    /// The binding of this number, as `underpass ls --json` shows it
    #[arg(long, value_name = "NUMBER")]
    binding: Option<u64>,
    /// The bindings of this process
    #[arg(long)]
    pid: Option<u32>,
    /// All bindings
    #[arg(long)]
    all: bool,
    /// Print how many ended as a JSON object
    #[arg(long)]
    json: bool,
}

/// Revokes bindings, and says how many.
///
/// # Errors
/// The export does not allow it, the user is another, or there is no such binding.
pub fn run(options: &RevokeOptions) -> Result<()> {
    let name = &options.name;
    let client = ask(name).map_err(|why| anyhow::anyhow!("{name} can't be asked: {why}"))?;
    let bindings = client.bindings().with_context(|| format!("{name} does not tell its bindings"))?;
    let chosen = |of: &&BindingView| {
        options.all || options.binding == Some(of.id) || options.pid.is_some_and(|pid| pid == of.pid)
    };
    let mut revoked = 0;
    for binding in bindings.iter().filter(chosen) {
        let ended = client.revoke(binding.id);
        revoked += usize::from(ended.with_context(|| format!("{name}: binding {} stays", binding.id))?);
    }
    if revoked == 0 && !options.all {
        bail!("{name} has no such binding; see `underpass ls --json {name}`");
    }
    let mut out = anstream::stdout().lock();
    match options.json {
        true => writeln!(out, "{}", json_line(&json!({ "name": name, "revoked": revoked })))?,
        false => writeln!(out, "revoked {revoked} bindings of {name}")?,
    }
    Ok(())
}
