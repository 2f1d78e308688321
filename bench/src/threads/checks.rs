//! Checks that the loops of our cases do what their names say, by counting switches.

use super::cases::CASES;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use underpass::processors;
use underpass::thread::{Switches, ThreadId, blocking, spawn, watch_switches};

/// Threads that were resumed. Relaxed: only the number counts, and the join comes between.
static RESUMED: AtomicU64 = AtomicU64::new(0);

struct Count;

impl Switches for Count {
    fn resumes(&self, _: ThreadId) {
        RESUMED.fetch_add(1, Ordering::Relaxed);
    }

    fn pauses(&self, _: ThreadId) {}
}

const OPERATIONS: u64 = 1_000;

/// How often a thread is resumed in that many operations of a case.
fn switches(case: &str) -> u64 {
    let case = CASES.iter().find(|known| known.name == case).unwrap();
    let before = RESUMED.load(Ordering::Relaxed);
    let ns = spawn(|| (case.ours)(OPERATIONS)).join().unwrap();
    assert!(ns > 0, "{} takes time", case.name);
    RESUMED.load(Ordering::Relaxed) - before
}

/// Set in the process that runs the check.
const ALONE: &str = "UNDERPASS_BENCH_CHECK_ALONE";

/// In a process of its own: the switches of other tests' threads would be counted too.
#[test]
fn each_case_does_what_it_is_called() {
    if std::env::var_os(ALONE).is_some() {
        return counts_switches();
    }
    let test = std::thread::current().name().expect("tests have names").to_owned();
    let mut alone = Command::new(std::env::current_exe().unwrap());
    let output = alone.args(["--exact", &test, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let passed = output.status.success() && said.contains("1 passed");
    assert!(passed, "{}\n{said}{}", output.status, String::from_utf8_lossy(&output.stderr));
}

fn counts_switches() {
    processors::set(1);
    assert!(watch_switches(&Count), "nobody else watches");
    for (case, each) in [("yield", 1), ("fork", 1), ("fork-join", 2), ("ping-pong", 2), ("park", 2)] {
        let switches = switches(case);
        let least = each * OPERATIONS;
        // Other threads' time slices may add some. While switches are counted, a thread that waits
        // for its children sometimes yields in vain.
        let most = if case == "fork" { u64::MAX } else { least + OPERATIONS / 2 };
        assert!((least..most).contains(&switches), "{case}: {switches} switches, not {least}");
    }
    for case in ["call", "lock", "blocking"] {
        let switches = switches(case);
        assert!(switches < OPERATIONS / 2, "{case} waits for nobody, and there are {switches} switches");
    }
    // No other thread has started there, so the call does not need another kernel thread.
    let counts = spawn(|| blocking(|| processors::activation_counts().unwrap())).join().unwrap();
    assert!(counts.in_blocking_call + counts.detached > 0, "{counts}");
}
