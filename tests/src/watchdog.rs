//! Ends a test that hangs.

use std::io::{self, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Far longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Ends the process with a dump of its kernel threads, unless dropped in time.
#[derive(Debug)]
pub struct Watchdog {
    _calm: Sender<()>,
}

impl Watchdog {
    /// Watches the test `name`.
    ///
    /// # Panics
    /// If no kernel thread can be started.
    pub fn new(name: &'static str) -> Self {
        Self::within(name, LIMIT)
    }

    /// As [`new`](Self::new), for a test that may take longer.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn within(name: &'static str, limit: Duration) -> Self {
        let (calm, watched) = channel::<()>();
        std::thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || {
                if watched.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                    // Not by `eprintln`: the test harness captures that text, and it would be lost
                    // with the process.
                    let _ = dump(name, &mut std::io::stderr().lock());
                    std::process::abort();
                }
            })
            .expect("a watchdog needs a kernel thread");
        Self { _calm: calm }
    }
}

/// Whether tests may take the time that large numbers need: `$UNDERPASS_TEST_LONG`.
pub fn long() -> bool {
    std::env::var_os("UNDERPASS_TEST_LONG").is_some()
}

fn dump(name: &str, to: &mut impl Write) -> io::Result<()> {
    writeln!(to, "{name} hangs:")?;
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for task in tasks {
        let of = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        writeln!(
            to,
            "kernel thread {:?} {} in {} ({})",
            task.file_name(),
            of("comm").trim(),
            of("wchan"),
            of("syscall").trim()
        )?;
    }
    Ok(())
}

/// Checks repeatedly until `found` returns something.
///
/// # Panics
/// If that takes longer than any test may take.
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
