//! This process, as its parent and the kernel see it.

use rustix::process::{Signal, set_parent_process_death_signal};
use std::io;

/// Has the kernel kill this process when the kernel thread that started it ends.
///
/// # Errors
/// What `prctl` says.
pub fn die_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// The effective user of this process.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}
