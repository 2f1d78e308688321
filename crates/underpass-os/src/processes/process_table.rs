//! The processes that this domain can see, as `/proc` lists them.

use std::fs;
use std::io;

/// One process that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessEntry {
    /// Its number.
    pub pid: u32,
    /// The number of its parent.
    pub parent: u32,
    /// When it began, in clock ticks since the machine did. With the number it names the process: a
    /// later process of the same number began later.
    pub started: u64,
    /// How many kernel threads it has.
    pub threads: u32,
    /// Whether its first kernel thread is able to run.
    pub is_first_ready: bool,
}

/// All processes that have not ended. One that begins or ends meanwhile may be left out.
///
/// # Errors
/// `/proc` is not there, or too many files are open.
///
/// # Examples
/// ```
/// use underpass_os::process_table;
/// let all = process_table::read()?;
/// assert!(all.iter().any(|process| process.pid == std::process::id() && process.is_first_ready));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read() -> io::Result<Vec<ProcessEntry>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        found.extend(find(pid));
    }
    Ok(found)
}

/// The process of this number, unless it has ended.
pub fn find(pid: u32) -> Option<ProcessEntry> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = fields_of(&stat)?;
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    // Between them: from the process group to the niceness.
    let threads = fields.nth(15)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    let has_ended = matches!(state, "Z" | "X" | "x");
    let is_first_ready = state == "R";
    (!has_ended).then_some(ProcessEntry { pid, parent, started, threads, is_first_ready })
}

/// The kernel threads of a process. Empty if it has ended.
pub fn threads_of(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// How many kernel threads of a process are able to run.
pub fn ready_threads(process: &ProcessEntry) -> u32 {
    if process.threads <= 1 {
        return process.is_first_ready.into();
    }
    let is_ready = |thread: &u32| {
        let stat = fs::read_to_string(format!("/proc/{}/task/{thread}/stat", process.pid));
        stat.is_ok_and(|stat| fields_of(&stat).and_then(|mut fields| fields.next()) == Some("R"))
    };
    threads_of(process.pid).iter().filter(|thread| is_ready(thread)).count() as u32
}

/// The fields of a `stat` file from the state on. The name of the program stands before them in
/// parentheses, and may contain any.
fn fields_of(stat: &str) -> Option<std::str::Split<'_, char>> {
    Some(stat.rsplit_once(") ")?.1.split(' '))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_is_in_the_table_until_it_ends() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let found = read().unwrap().into_iter().find(|process| process.pid == child.id()).unwrap();
        assert_eq!((found.parent, found.threads), (std::process::id(), 1));
        assert_eq!(find(child.id()).map(|process| process.started), Some(found.started));
        assert_eq!(threads_of(child.id()), [child.id()]);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(find(child.id()), None);
        assert!(threads_of(child.id()).is_empty());
        assert_eq!(ready_threads(&ProcessEntry { threads: 2, ..found }), 0);
    }

    #[test]
    fn threads_that_compute_are_ready() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let ready = || ready_threads(&find(std::process::id()).unwrap());
            // This one, and the other two as soon as they have begun.
            while ready() < 3 {}
            over.store(true, Ordering::Relaxed);
        });
    }
}
