//! What the tests share.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Aborts the test process if it lives for a minute: something hangs.
pub struct Watchdog {
    _ends: Sender<()>,
}

/// Watches the test that the caller is.
pub fn watchdog() -> Watchdog {
    let (sender, receiver) = channel::<()>();
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    std::thread::spawn(move || {
        if receiver.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{name} hangs; its kernel threads:");
            for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
                let of = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
                eprintln!("  {} in {}", of("comm").trim(), of("wchan").trim());
            }
            std::process::abort();
        }
    });
    Watchdog { _ends: sender }
}

/// Has `test` run by a user-level thread and then by a plain kernel thread.
pub fn by_both(test: fn()) {
    underpass_threads::spawn(test).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    std::thread::spawn(test).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}
