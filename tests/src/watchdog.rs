//! Nothing here hangs for ever.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Far more than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Ends the process with a dump of its kernel threads, unless dropped in time.
#[derive(Debug)]
pub struct Watchdog {
    _calm: Sender<()>,
}

impl Watchdog {
    /// Watches over the test `name`.
    ///
    /// # Panics
    /// If the kernel gives no kernel thread.
    pub fn new(name: &'static str) -> Self {
        let (calm, watched) = channel::<()>();
        std::thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || {
                if watched.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
                    eprintln!("{name} hangs:");
                    dump();
                    std::process::abort();
                }
            })
            .expect("a watchdog needs a kernel thread");
        Self { _calm: calm }
    }
}

fn dump() {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for task in tasks {
        let of = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        eprintln!(
            "kernel thread {:?} {} in {} ({})",
            task.file_name(),
            of("comm").trim(),
            of("wchan"),
            of("syscall").trim()
        );
    }
}

/// Looks again and again until `found` gives something.
///
/// # Panics
/// If that takes longer than any test may: it will not come.
pub fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "{what} does not come");
        std::thread::yield_now();
    }
}
