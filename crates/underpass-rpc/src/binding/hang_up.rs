//! Ends all connections at once, before this process executes another program.

use crate::control::clerk::clerk;
use underpass_os::fork;

/// Ends every binding and every export of this process at once. Call it before [`exec`].
///
/// The kernel closes the bindings of a process that executes a program only when all kernel threads
/// of the process have ended. One of them may hang forever closing a file that a peer has passed
/// and holds (see `doc/security.md`). Then `exec` hangs, and without this call no peer would learn
/// that the process is gone.
///
/// Peers see what they see when a process ends: their calls fail with
/// [`PeerDied`](crate::CallError::PeerDied). So do this process's own calls. The function does not
/// wait for calls under way. To let them finish, call
/// [`Running::shutdown`](crate::Running::shutdown) first. The names stay, like those of a server
/// that has died, until another server takes them over.
///
/// In a forked child the function does nothing, because the child has none of the bindings.
///
/// [`exec`]: std::os::unix::process::CommandExt::exec
///
/// # Examples
/// ```no_run
/// use std::os::unix::process::CommandExt;
/// use std::process::Command;
///
/// underpass::hang_up();
/// let failed = Command::new("/usr/bin/another-program").exec();
/// eprintln!("exec failed: {failed}");
/// ```
pub fn hang_up() {
    if fork::check().is_err() {
        return;
    }
    if let Ok(clerk) = clerk() {
        clerk.hang_up();
    }
}
