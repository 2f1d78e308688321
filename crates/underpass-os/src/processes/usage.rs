//! What this process takes of the machine.

use rustix::time::{ClockId, clock_gettime};
use std::{fs, io};

/// Processor time, memory and kernel threads of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Processor time of all its kernel threads, also of those that have ended, in ns.
    pub processor_time_ns: u64,
    /// Bytes of memory that are resident.
    pub resident_bytes: u64,
    /// Its kernel threads.
    pub kernel_threads: u32,
}

/// What this process takes now.
///
/// # Errors
/// `/proc` is out of reach.
///
/// # Examples
/// ```
/// let usage = underpass_os::usage::of_this_process()?;
/// assert!(usage.resident_bytes > 0 && usage.kernel_threads > 0);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn of_this_process() -> io::Result<ProcessUsage> {
    let status = fs::read_to_string("/proc/self/status")?;
    let number = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0_u64)
    };
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Ok(ProcessUsage {
        processor_time_ns: time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
        // The kernel tells it in KiB.
        resident_bytes: number("VmRSS:") * 1024,
        kernel_threads: number("Threads:") as u32,
    })
}
