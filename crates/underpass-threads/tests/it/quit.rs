//! `SIGQUIT` brings a dump, whatever the threads do.

use crate::common::{setting, test_command, watchdog};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use underpass_threads::{Builder, State, dump, dump_on_quit, park};

/// The child process.
fn hangs() {
    dump_on_quit().unwrap();
    dump_on_quit().unwrap();
    let _parked = Builder::new().name("parked for ever").spawn(park).unwrap();
    while !dump().threads.iter().any(|thread| thread.state == State::Blocked && thread.kernel.is_none()) {}
    let computes = Builder::new().name("computes for ever").dedicated().spawn(|| {
        println!("ready");
        loop {
            std::hint::spin_loop();
        }
    });
    computes.unwrap().join().unwrap();
}

#[test]
fn a_process_that_hangs_says_why_when_it_is_asked() {
    let _dog = watchdog();
    if setting("UNDERPASS_TEST_DIES", 0) == 1 {
        return hangs();
    }
    let mut child = test_command();
    child.env("UNDERPASS_TEST_DIES", "1").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(out.any(|line| line.contains("ready")));
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    for _ in 0..2 {
        let kill = Command::new("kill").args(["-QUIT", &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        // The last line of this dump.
        let mut dump = Vec::new();
        loop {
            let line = said.next().expect("the process goes on");
            let over = line.contains("does not answer");
            dump.push(line);
            if over {
                break;
            }
        }
        let dump = dump.join("\n");
        assert!(dump.contains("'parked for ever'") && dump.contains("waits for unpark"), "{dump}");
        assert!(dump.contains("'computes for ever'") && dump.contains(": running"), "{dump}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
