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
mod options;
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

pub use options::{DemoOptions, HELP};

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
