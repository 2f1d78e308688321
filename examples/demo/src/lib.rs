//! The demo: Figure 1 of the URPC paper on real work.
//!
//! An editor, a window manager and a file cache manager are three processes. The editor changes a
//! text over the interfaces of the two others, by calls of Underpass and, for comparison, over Unix
//! sockets. One of the servers is killed meanwhile.
//!
//! *Decides:* what the three processes do, what is measured of them, and how the results are shown.
//!
//! *Read first:* `interfaces.rs`, then `job.rs` (the editor's work) and `round.rs` (three processes
//! do it). `roles.rs` is the code that the children run.
#![forbid(unsafe_code)]

mod cache;
mod caption;
mod chart;
mod child_processes;
mod edit;
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
mod serve;
mod show;
mod sockets;
mod switches;
mod text;
mod timeline;
mod traced;
mod windows;

use std::path::PathBuf;

/// What the command says of itself.
const ABOUT: &str = "An editor, a window manager and a file cache manager in three processes: the URPC paper's \
                     Figure 1 on real work";

/// What `underpass-demo` is asked for.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "underpass-demo", version, about = ABOUT, long_about = None)]
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
    /// Serve the file cache and the windows of the demo, for `underpass ls`, `describe`, `call` and
    /// `top` to look at
    #[arg(long, requires = "file", conflicts_with_all = ["json", "svg", "quick"])]
    serve: bool,
    /// Call what another process serves by `--serve`, without a pause
    #[arg(long, conflicts_with_all = ["file", "json", "svg", "quick", "serve"])]
    edit: bool,
    /// What the demo starts this program as
    #[arg(long, hide = true)]
    role: Option<event::DemoDomain>,
}

/// Runs the demo, or one of its processes.
///
/// # Errors
/// If anything fails. The children have ended then, and nothing is left in the file system.
pub fn run(options: &DemoOptions) -> anyhow::Result<()> {
    match (options.role, &options.file) {
        (Some(domain), _) => roles::run(domain),
        (None, Some(text)) if options.serve => serve::run(text),
        (None, _) if options.edit => edit::run(),
        (None, _) => show::run(options),
    }
}
