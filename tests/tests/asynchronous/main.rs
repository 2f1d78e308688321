//! Callers that are async tasks, and async handlers: under tokio on one thread, under tokio on
//! several, and under smol.

mod callers;
mod cancelled;
mod deferred;
mod executors;
mod handlers;
mod late;
mod late_ends;
mod waits;

use std::process::Command;

/// Runs `test`, the calling test, in a process of its own, because it counts what the process has.
fn alone(test: impl FnOnce()) {
    const ALONE: &str = "UNDERPASS_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        // smol keeps the files of its timers once they exist.
        smol::block_on(smol::Timer::after(std::time::Duration::ZERO));
        return test();
    }
    let name = std::thread::current().name().expect("tests have names").to_owned();
    let mut again = Command::new(std::env::current_exe().unwrap());
    let output = again.args(["--exact", &name, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let passed = output.status.success() && said.contains("1 passed");
    assert!(passed, "{}\n{said}{}", output.status, String::from_utf8_lossy(&output.stderr));
}
