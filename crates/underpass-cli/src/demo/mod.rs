//! The demo: Figure 1 of the URPC paper on real work.
//!
//! *Decides:* what the three processes do, what is measured of them, and how the results are shown.
//!
//! *Read first:* `interfaces.rs`, then `job.rs` (the editor's work) and `round.rs` (three processes
//! do it). `roles.rs` is the code that the children run.

mod cache;
mod caption;
mod chart;
mod child_processes;
mod editor;
mod event;
mod figure;
mod files;
mod imports;
mod interfaces;
mod job;
mod messages;
mod numbers;
mod outcome;
mod over_sockets;
mod plan;
mod report;
mod roles;
mod round;
mod scan;
mod screen;
mod show;
mod sockets;
mod switches;
mod text;
mod timeline;
mod traced;
mod windows;

use std::path::PathBuf;

/// What `underpass demo` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub struct DemoOptions {
    /// The file to edit a copy of; without it, the demo makes a text of some MB
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Print everything as one JSON object, and nothing else, on standard output
    #[arg(long)]
    pub json: bool,
    /// Draw the timeline into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// A smaller text and fewer rounds: about three seconds
    #[arg(long)]
    pub quick: bool,
    /// What the demo starts this program as
    #[arg(long, hide = true)]
    role: Option<event::DemoDomain>,
}

/// Runs the demo, or one of its processes.
///
/// # Errors
/// If anything fails. The children have ended then, and nothing is left in the file system.
pub fn run(options: &DemoOptions) -> anyhow::Result<()> {
    match options.role {
        Some(domain) => roles::run(domain),
        None => show::run(options),
    }
}
