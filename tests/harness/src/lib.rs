//! What tests of any crate need beside `cargo test`: [`skip!`] and [`alone!`].
//!
//! The integration tests of a crate are one executable, because linking one for each file takes
//! most of the time of `cargo test`. So all of them run in one process. A test that counts or
//! changes what belongs to the whole process begins with [`alone!`], and runs in a process of its
//! own.
//!
//! A test that can't run on this machine reports by [`skip!`] that it was skipped, and why. The
//! harness knows only tests that pass and tests that fail. It also hides what a test that
//! passes has printed. So the report goes to the standard error of the process, past the harness's
//! capture, as one line: `skipped: TEST: REASON`. `.ci/run` counts these lines and compares the
//! tests with `.ci/skips`, where each test that may be skipped stands with the condition for it.
//!
//! ```no_run
//! use underpass_harness::skip;
//!
//! // With #[test] in a test's file.
//! fn a_name_of_another_user_is_found_by_root() {
//!     let root = false;
//!     if !root {
//!         skip!("only root sees what other users export");
//!     }
//!     // …
//! }
//! ```

#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a test in a process of its own may take. Its own watchdog is faster, and says more.
const CHILD_TIMEOUT: Duration = Duration::from_secs(600);

/// The environment variable that names the test for which a process was started.
const ALONE: &str = "UNDERPASS_TEST_ALONE";

/// Reports that the function in which it stands is skipped, and returns from it.
///
/// The arguments are those of `format!`; they give the reason. The function returns `()`. In a
/// helper that a test calls, report by [`report`] with the test's name and return what tells the
/// test so.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => {{
        fn here() {}
        $crate::report($crate::function_of(::std::any::type_name_of_val(&here)), &::std::format!($($reason)+));
        return;
    }};
}

/// Runs the test in which it stands in a process of its own, which runs nothing else.
///
/// It stands at the beginning of a test. The test executable starts itself again with the test's
/// name. In the new process the test goes on behind `alone!()`; in the old one it returns, and
/// fails if the new process has failed. The function returns `()`, or takes the value that it
/// returns as an argument: `alone!(Ok(()))`.
///
/// ```no_run
/// use underpass_harness::alone;
///
/// // With #[test] in a test's file.
/// fn the_process_has_no_further_kernel_threads() {
///     alone!();
///     // …
/// }
/// ```
#[macro_export]
macro_rules! alone {
    ($($result:expr)?) => {{
        fn here() {}
        if !$crate::is_alone($crate::function_of(::std::any::type_name_of_val(&here))) {
            return $($result)?;
        }
    }};
}

/// Whether this process was started for `test`, a path with the crate's name in front. If not,
/// starts a process for it, and waits for its end: for [`alone!`].
///
/// # Panics
/// If the test fails or hangs in the new process, with what it has printed.
pub fn is_alone(test: &str) -> bool {
    let name = test.split_once("::").map_or(test, |(_, name)| name);
    if std::env::var(ALONE).is_ok_and(|started_for| started_for == name) {
        return true;
    }
    let own = std::env::current_exe().expect("the test executable has a path");
    let mut command = Command::new(own);
    command.args(["--exact", name, "--nocapture", "--include-ignored", "--test-threads=1"]).env(ALONE, name);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a test can be started in a process of its own");
    let (stdout, stderr) = (read_all(child.stdout.take()), read_all(child.stderr.take()));
    let status = wait(&mut child);
    let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
    for line in stderr.lines().filter(|line| line.starts_with("skipped: ")) {
        let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
    }
    let ended = status.map_or_else(|| "hangs, and was killed".to_owned(), |status| status.to_string());
    let passed = status.is_some_and(|status| status.success()) && stdout.contains("1 passed");
    assert!(passed, "{name} in a process of its own: {ended}\n{stdout}\n{stderr}");
    print!("{stdout}{stderr}");
    false
}

/// Waits for the end of a child. Kills one that hangs, and returns `None`.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + CHILD_TIMEOUT;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// Reads a pipe to its end on another kernel thread, so that its writer never waits.
fn read_all(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut all));
        String::from_utf8_lossy(&all).into_owned()
    })
}

/// The function in which `here`, the name of a function inside it, stands: for [`skip!`] and
/// [`alone!`].
pub fn function_of(here: &str) -> &str {
    let outer = here.strip_suffix("::here").unwrap_or(here);
    outer.trim_end_matches("::{{closure}}")
}

/// Writes the line that says that `test` was skipped because of `reason`.
pub fn report(test: &str, reason: &str) {
    // In one write, as tests run side by side. Where standard error is closed nobody counts.
    let line = format!("skipped: {test}: {}\n", reason.replace('\n', " "));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_alone_has_a_process_of_its_own() {
        alone!();
        let name = "tests::a_test_alone_has_a_process_of_its_own";
        assert_eq!(std::env::var(ALONE).as_deref(), Ok(name));
        assert!(std::env::args().any(|argument| argument == name));
    }

    #[test]
    fn the_failure_of_a_test_alone_is_its_own() {
        // In the process of its own it fails, as it should.
        if std::env::var(ALONE).is_ok() {
            assert!(
                !is_alone("underpass_harness::tests::the_failure_of_a_test_alone_is_its_own"),
                "by intention"
            );
        }
        let run = || is_alone("underpass_harness::tests::the_failure_of_a_test_alone_is_its_own");
        let failed = std::panic::catch_unwind(run).unwrap_err();
        let why = failed.downcast::<String>().unwrap();
        assert!(why.contains("by intention"), "{why}");
    }

    #[test]
    fn the_name_is_that_of_the_function_around() {
        fn here() {}
        let inner = || {
            fn here() {}
            std::any::type_name_of_val(&here)
        };
        let own = "underpass_harness::tests::the_name_is_that_of_the_function_around";
        assert_eq!(function_of(std::any::type_name_of_val(&here)), own);
        assert_eq!(function_of(inner()), own);
    }
}
