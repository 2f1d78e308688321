//! A server whose only processor computes without reaching a scheduling point takes calls all the
//! same.

use std::process::Command;
use underpass::thread;
use underpass_harness::alone;
use underpass_tests::{Probe, ProbeClient, Room, ServerProcess, Watchdog};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

/// Longer than any test.
const LONG: u64 = 3_600_000;

fn one_processor(command: &mut Command) {
    command.env("UNDERPASS_PROCESSORS", "1");
}

#[test]
fn a_call_is_taken_beside_one_that_computes() {
    alone!();
    let _watchdog = Watchdog::new("a_call_is_taken_beside_one_that_computes");
    let server = ServerProcess::start_with(SERVER, &Room::name("computing"), "probe", one_processor);
    let client = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    client.null().unwrap();
    let computes = client.clone();
    let computing = thread::spawn(move || computes.compute(LONG));
    for turn in 0..20 {
        // By a user-level thread, and by a kernel thread.
        let inside = client.clone();
        assert_eq!(thread::spawn(move || inside.add(turn, 1)).join().unwrap(), Ok(turn + 1));
        assert_eq!(client.add(turn, 2), Ok(turn + 2));
    }
    // The one that computes has its processor still: it ends with the server alone.
    drop(server);
    assert!(computing.join().unwrap().is_err());
}
