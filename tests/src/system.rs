//! What the kernel reports about a process.

use crate::watchdog::until;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// Longer than closing any file takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn count(pid: u32, what: &str) -> usize {
    fs::read_dir(format!("/proc/{pid}/{what}")).map_or(0, Iterator::count)
}

/// The open files of `pid`, except those by which its monitor reads the state of its own kernel
/// threads. There is one of those for each kernel thread, opened when the thread starts.
pub fn fds_of(pid: u32) -> usize {
    open_files(pid).count()
}

fn open_files(pid: u32) -> impl Iterator<Item = fs::DirEntry> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let stats = |file: &fs::DirEntry| fs::read_link(file.path()).is_ok_and(|at| at.starts_with("/proc"));
    files.filter(move |file| !stats(file))
}

/// How many files are open in the descriptor table of each kernel thread of `pid`, at most. File
/// threads have tables of their own.
pub fn fds_of_any_table(pid: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let fds = |task: fs::DirEntry| fs::read_dir(task.path().join("fd")).into_iter().flatten().count();
    tasks.map(fds).max().unwrap_or(0)
}

/// The open files of a process, and how often each is open. A plain count would mislead where an
/// earlier file is about to be closed.
pub struct Files {
    pid: u32,
    open: BTreeMap<File, usize>,
}

/// The name of a file, its device and its inode. Its descriptor number says nothing, since a file
/// that is opened anew may get another.
type File = (PathBuf, u64, u64);

impl Files {
    /// The files of `pid` now.
    pub fn of(pid: u32) -> Self {
        let mut open = BTreeMap::new();
        for file in open_files(pid) {
            if let (Ok(what), Ok(called)) = (fs::metadata(file.path()), fs::read_link(file.path())) {
                *open.entry((called, what.dev(), what.ino())).or_default() += 1;
            }
        }
        Self { pid, open }
    }

    /// The files of this process now.
    pub fn own() -> Self {
        Self::of(std::process::id())
    }

    /// How many files the process has open now that were not open then.
    pub fn others(&self) -> usize {
        self.more().iter().map(|(_, more)| more).sum()
    }

    /// Waits until the process has no file open that was not open then.
    ///
    /// # Panics
    /// If some stay open.
    pub fn until_no_others(&self) {
        let begun = Instant::now();
        while self.others() > 0 {
            let late = begun.elapsed() > PATIENCE;
            assert!(!late, "still open: {:?}", self.more());
            std::thread::yield_now();
        }
    }

    /// The files that were not open then, and how often each is open.
    fn more(&self) -> Vec<(File, usize)> {
        let more = |(file, now): (File, usize)| {
            let more = now.saturating_sub(self.open.get(&file).copied().unwrap_or(0));
            (more > 0).then_some((file, more))
        };
        self.now().open.into_iter().filter_map(more).collect()
    }

    fn now(&self) -> Self {
        Self::of(self.pid)
    }
}

/// The number of kernel threads of `pid`.
pub fn kernel_threads_of(pid: u32) -> usize {
    count(pid, "task")
}

/// The states of the kernel threads of `pid`: `S` is asleep, `R` is running.
pub fn state_of(pid: u32) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks
        .filter_map(|task| {
            let stat = fs::read_to_string(task.path().join("stat")).ok()?;
            stat.rsplit(')').next()?.trim().chars().next()
        })
        .collect()
}

/// How often the kernel threads of `pid` stopped running: voluntarily, and because others wanted
/// the CPU.
pub fn switches_of(pid: u32) -> (u64, u64) {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let field = |text: &str, name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<u64>().ok()
    };
    texts.fold((0, 0), |(slept, preempted), text| {
        let of = |name| field(&text, name).unwrap_or(0);
        (slept + of("voluntary_ctxt_switches:"), preempted + of("nonvoluntary_ctxt_switches:"))
    })
}

/// The clock ticks that `pid` has run for, in user mode and in the kernel.
pub fn ticks_of(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name is in brackets and may contain anything. utime and stime are the 12th and 13th word
    // after it.
    let after = stat.rsplit(')').next().unwrap_or_default();
    after.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum()
}

/// A field of `pid`'s status in KiB: `RssAnon`, `RssShmem`, `VmPTE`.
pub fn kib_of(pid: u32, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Stops every kernel thread of `pid`, as `kill -STOP` does, and waits until they have stopped.
///
/// # Panics
/// If it cannot be stopped.
pub fn stop(pid: u32) {
    signal("-STOP", pid);
    until("the process to stop", || state_of(pid).chars().all(|state| state == 'T').then_some(()));
}

/// Lets `pid` continue, as `kill -CONT` does.
///
/// # Panics
/// If it cannot be continued.
pub fn cont(pid: u32) {
    signal("-CONT", pid);
}

/// Ends `pid`, as `kill -KILL` does.
///
/// # Panics
/// If it cannot be killed.
pub fn kill(pid: u32) {
    signal("-KILL", pid);
}

/// Sends `signal` to `pid`. The signal is named as for `kill`: `-TERM`.
///
/// # Panics
/// If it cannot be sent.
pub fn signal(signal: &str, pid: u32) {
    let sent = Command::new("kill").args([signal, &pid.to_string()]).status().expect("there is a `kill`");
    assert!(sent.success(), "{signal} to {pid}: {sent}");
}

/// The number of binding regions that `pid` has mapped.
pub fn regions_of(pid: u32) -> usize {
    mapped(pid, "underpass-binding")
}

/// The number of lanes that `pid` has mapped: those of ports, and streams.
pub fn lanes_of(pid: u32) -> usize {
    mapped(pid, "underpass-lane")
}

fn mapped(pid: u32, name: &str) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().filter(|line| line.contains(name)).count()
}
