//! What the tests of this crate share: a watchdog, and a given number of processors.

use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Far more than any test takes on a busy machine; `UNDERPASS_TEST_LIMIT` sets another number of
/// seconds, for long runs.
const LIMIT: u64 = 120;
/// The variable that shows what child processes print.
const LOUD: &str = "UNDERPASS_TEST_LOUD";
/// Set in processes that run one test by themselves.
const INSIDE: &str = "UNDERPASS_TEST_INSIDE";

/// Ends the process with a list of its kernel threads, unless dropped in time.
pub struct Watchdog {
    _calm: Sender<()>,
}

/// Watches over the calling test.
pub fn watchdog() -> Watchdog {
    let limit = Duration::from_secs(setting("UNDERPASS_TEST_LIMIT", LIMIT));
    let (calm, watched) = channel::<()>();
    let name = test_name();
    std::thread::spawn(move || {
        if watched.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{name} hangs:");
            list();
            std::process::abort();
        }
    });
    Watchdog { _calm: calm }
}

/// A number from the environment.
///
/// # Panics
/// If it is none.
pub fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Whether tests may take the time that large numbers need: `$UNDERPASS_TEST_LONG`.
pub fn long() -> bool {
    std::env::var_os("UNDERPASS_TEST_LONG").is_some()
}

fn list() {
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
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

/// The calling test's name, with its module in front.
///
/// # Panics
/// If another thread than the test's calls it.
pub fn test_name() -> String {
    std::thread::current().name().expect("tests have names").to_owned()
}

/// A command that runs the calling test, and no other, in a new process.
///
/// # Panics
/// As [`test_name`].
pub fn test_command() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test has a file"));
    command.args(["--exact", &test_name(), "--nocapture"]);
    command
}

/// Runs the calling test's `body` in a process of its own, once for each number of processors. A
/// test that needs no given number uses `alone!`.
///
/// # Panics
/// If the body does, with what it printed.
pub fn with_processors(processors: &[u32], body: impl FnOnce()) {
    with_settings(processors, &[], body);
}

/// As [`with_processors`], with more variables in the environment.
///
/// # Panics
/// If the body does, with what it printed.
pub fn with_settings(processors: &[u32], settings: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        let _dog = watchdog();
        return body();
    }
    let test = test_name();
    for count in processors {
        let output = test_command()
            .env(INSIDE, "1")
            .env("UNDERPASS_PROCESSORS", count.to_string())
            .envs(settings.iter().copied())
            .output()
            .expect("a test can be run again");
        let said = String::from_utf8_lossy(&output.stdout);
        if std::env::var_os(LOUD).is_some() {
            print!("{said}");
        }
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{test} with {count} processors: {}\n{said}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// Runs the calling test's `body` in a process of its own with one processor. The body ends the
/// process (`abort`). Returns its output.
///
/// # Panics
/// If the process ends in another way.
pub fn aborts(body: impl FnOnce()) -> String {
    if std::env::var_os(INSIDE).is_some() {
        let _dog = watchdog();
        body();
        std::process::exit(0);
    }
    let test = test_name();
    let output = test_command()
        .env(INSIDE, "1")
        .env("UNDERPASS_PROCESSORS", "1")
        .output()
        .expect("a test can be run again");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert!(signal == Some(ABORT) && !said.contains("hangs:"), "{test}: {}\n{said}", output.status);
    said
}

/// `SIGABRT`.
const ABORT: i32 = 6;
