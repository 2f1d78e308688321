//! The niceness of kernel threads: how much of a shared CPU they leave to others.

use rustix::process::{Pid, Resource, getpriority_process, getrlimit, setpriority_process};
use rustix::thread::{CapabilitySet, capabilities};
use std::io;

fn name(thread: u32) -> io::Result<Pid> {
    let name = i32::try_from(thread).ok().and_then(Pid::from_raw);
    name.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// The niceness of a kernel thread of any process: from -20 to 19.
///
/// # Errors
/// There is no such thread.
pub fn of(thread: u32) -> io::Result<i32> {
    Ok(getpriority_process(Some(name(thread)?))?)
}

/// Sets the niceness of a kernel thread of this user.
///
/// # Errors
/// There is no such thread. `PermissionDenied` if it is another user's, or if the niceness would be
/// lowered and [`may_lower_to`] does not allow that.
///
/// # Examples
/// ```
/// use underpass_os::niceness;
/// let own = std::process::id();
/// let before = niceness::of(own)?;
/// if niceness::may_lower_to(before) {
///     niceness::set(own, 19)?;
///     niceness::set(own, before)?;
/// }
/// assert_eq!(niceness::of(own)?, before);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn set(thread: u32, niceness: i32) -> io::Result<()> {
    Ok(setpriority_process(Some(name(thread)?), niceness)?)
}

/// Whether this process may lower the niceness of a thread to this value: it may do anything
/// (`CAP_SYS_NICE`), or its limit allows it (`ulimit -e` of a shell).
pub fn may_lower_to(niceness: i32) -> bool {
    let is_privileged = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_NICE));
    let limit = getrlimit(Resource::Nice).current.unwrap_or(u64::MAX);
    is_privileged || u64::try_from(20 - niceness).is_ok_and(|least| least <= limit)
}
