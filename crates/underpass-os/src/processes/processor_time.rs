//! The processor time that the kernel accounts to another process.

use std::fs;
use std::io;

/// What the kernel accounts to one kernel thread, in ns, since the thread began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadTime {
    /// The ID of the kernel thread.
    pub thread: u32,
    /// So long it ran.
    pub ran: u64,
    /// So long it was able to run, and the kernel ran others.
    pub waited: u64,
}

/// The kernel threads of the process `pid`, as `/proc` says. Its number may belong to a later
/// process. A thread that ends meanwhile is left out.
///
/// # Errors
/// There is no such process, this domain can't see it, or too many files are open.
///
/// # Examples
/// ```
/// use underpass_os::processor_time::of_threads;
/// let threads = of_threads(std::process::id())?;
/// assert!(threads.iter().any(|thread| thread.thread == std::process::id()));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn of_threads(pid: u32) -> io::Result<Vec<ThreadTime>> {
    let mut times = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let entry = entry?;
        let Some(thread) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(text) = fs::read_to_string(entry.path().join("schedstat")) else { continue };
        let mut numbers = text.split_ascii_whitespace().map(|number| number.parse().unwrap_or(0));
        let (ran, waited) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        times.push(ThreadTime { thread, ran, waited });
    }
    Ok(times)
}
