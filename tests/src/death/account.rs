//! What a process holds, to find what has grown in the end.

use std::process;
use std::time::{Duration, Instant};
use underpass_tests::{Room, fds_of, kernel_threads_of, kib_of, lanes_of, regions_of};

/// Heap that may be in use temporarily, in KiB.
const SLACK: u64 = 1024;
/// Heap of one kernel thread, in KiB.
const OF_THREAD: u64 = 256;
/// Kernel threads that may start late: activations that replace blocked ones stay. With at most
/// eight CPUs the runtime starts at most about 32 of them by itself, however many processes die.
/// That is half of what `limit` in `underpass-processor/src/pool/launcher.rs` allows.
const LATE: usize = 32;
/// Far longer than it takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// What this process holds.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    files: usize,
    regions: usize,
    lanes: usize,
    kernel_threads: usize,
    heap: u64,
    names: usize,
}

impl Account {
    /// What it holds now.
    pub fn now() -> Self {
        let own = process::id();
        Self {
            files: fds_of(own),
            regions: regions_of(own),
            lanes: lanes_of(own),
            kernel_threads: kernel_threads_of(own),
            heap: kib_of(own, "RssAnon"),
            names: std::fs::read_dir(Room::directory()).map_or(0, |names| names.count()),
        }
    }

    /// Waits until the process holds no more of anything than it held then.
    ///
    /// # Errors
    /// The message says what has grown.
    pub fn settled(&self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let now = Self::now();
            let system = now.files <= self.files
                && now.regions <= self.regions
                && now.lanes <= self.lanes
                && now.names <= self.names;
            let late = now.kernel_threads.saturating_sub(self.kernel_threads);
            let own = late <= LATE && now.heap <= self.heap + SLACK + OF_THREAD * late as u64;
            if system && own {
                println!("{self:?} then, {now:?} now");
                return Ok(());
            }
            if begun.elapsed() > LIMIT {
                return Err(format!("{self:?} then, and still {now:?} now"));
            }
            std::thread::yield_now();
        }
    }
}
