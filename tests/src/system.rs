//! What the kernel knows of a process.

use std::fs;

fn count(pid: u32, what: &str) -> usize {
    fs::read_dir(format!("/proc/{pid}/{what}")).map_or(0, Iterator::count)
}

/// Open files of `pid`.
pub fn fds_of(pid: u32) -> usize {
    count(pid, "fd")
}

/// Kernel threads of `pid`.
pub fn kernel_threads_of(pid: u32) -> usize {
    count(pid, "task")
}

/// The states of the kernel threads of `pid`: `S` sleeps, `R` runs.
pub fn state_of(pid: u32) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks
        .filter_map(|task| {
            let stat = fs::read_to_string(task.path().join("stat")).ok()?;
            stat.rsplit(')').next()?.trim().chars().next()
        })
        .collect()
}
