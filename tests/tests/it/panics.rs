//! A server that was built with `panic = "abort"`: a panic of a handler ends the process, and its
//! callers are told.
//!
//! Cargo builds all programs of a profile alike, so `.ci/nightly aborting` builds such a server
//! first, and names it in `$UNDERPASS_TEST_ABORTING`.

use std::os::unix::process::ExitStatusExt;
use underpass::{CallError, Outcome};
use underpass_harness::skip;
use underpass_tests::{Probe, ProbeClient, Room, ServerProcess, Watchdog, until};

/// The server's program.
const SERVER: &str = "UNDERPASS_TEST_ABORTING";

/// `SIGABRT`.
const ABORT: i32 = 6;

#[test]
fn callers_of_a_server_that_aborts_at_a_panic_are_told_of_its_death() {
    let _watchdog = Watchdog::new("callers_of_a_server_that_aborts_at_a_panic_are_told_of_its_death");
    let Ok(program) = std::env::var(SERVER) else {
        skip!("no server that aborts was built (.ci/nightly aborting)");
    };
    let mut server = ServerProcess::start(&program, &Room::name("aborting"), "probe");
    let client = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    let other = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    client.null().unwrap();
    std::thread::scope(|scope| {
        // It waits in a handler of its own while the other one panics.
        let waits = scope.spawn(|| other.nap(60_000));
        until("the other call to be under way", || (other.counters().calls == 1).then_some(()));
        assert_eq!(client.panic("by intention"), Err(CallError::PeerDied(Outcome::Unknown)));
        assert_eq!(waits.join().unwrap(), Err(CallError::PeerDied(Outcome::Unknown)));
    });
    assert_eq!(client.null().unwrap_err().outcome(), Outcome::NotStarted);
    assert_eq!(server.ended().signal(), Some(ABORT));
}
