//! The end of all connections at once: what a process does before it executes another program.

use crate::control::clerk::clerk;
use underpass_os::fork;

/// Ends every binding of this process and everything that it exports, at once: for a process that
/// is about to execute another program ([`exec`]).
///
/// The kernel closes the bindings of a process that executes a program, but only when all of its
/// kernel threads have ended. One of them may hang for ever over a file that a peer has passed and
/// holds (see `doc/security.md`). Then `exec` hangs, and without this call no peer would hear that
/// the process is gone.
///
/// Peers hear what they hear of a process that ends: their calls end with
/// [`PeerDied`](crate::CallError::PeerDied). So do calls of this process. It waits for nothing. To
/// let calls under way end first, call [`Running::shutdown`](crate::Running::shutdown) before it.
/// The names stay as those of a server that has died, until another takes them over.
///
/// In a child that was forked off it does nothing, as the child has none of the bindings.
///
/// [`exec`]: std::os::unix::process::CommandExt::exec
///
/// # Examples
/// ```no_run
/// use std::os::unix::process::CommandExt;
/// use std::process::Command;
///
/// underpass_rpc::hang_up();
/// let failed = Command::new("/usr/bin/another-program").exec();
/// eprintln!("it could not be executed: {failed}");
/// ```
pub fn hang_up() {
    if fork::check().is_err() {
        return;
    }
    if let Ok(clerk) = clerk() {
        clerk.hang_up();
    }
}
