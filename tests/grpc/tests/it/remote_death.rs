//! Servers of other machines that die, and that come back.

use std::time::Duration;
use underpass::{CallError, ImportError, Outcome};
use underpass_grpc::remote::Remote;
use underpass_test_grpc::{Depot, DepotClient, RemoteProcess, Tally, TallyClient};
use underpass_tests::Watchdog;

const BINARY: &str = env!("CARGO_BIN_EXE_underpass-test-grpc");

/// More than any test takes.
const SOON: Duration = Duration::from_secs(120);

fn depot(server: &RemoteProcess) -> DepotClient {
    DepotClient::import_by(&Remote::new(), &server.address("depot"), SOON).unwrap()
}

#[test]
fn a_call_hears_of_its_servers_death() {
    let _watchdog = Watchdog::new("a_call_hears_of_its_servers_death");
    let mut server = RemoteProcess::start(BINARY);
    let depot = depot(&server);
    let holding = depot.clone();
    let call = std::thread::spawn(move || holding.hold());
    while depot.held().unwrap() != (1, 0) {
        std::thread::yield_now();
    }
    server.kill();
    assert_eq!(call.join().unwrap(), Err(CallError::PeerDied(Outcome::Unknown)));
}

#[test]
fn a_call_to_a_server_that_is_gone_was_not_started() {
    let _watchdog = Watchdog::new("a_call_to_a_server_that_is_gone_was_not_started");
    let mut server = RemoteProcess::start(BINARY);
    let depot = depot(&server);
    assert_eq!(depot.add(1, 1), Ok(2));
    server.kill();
    // The first calls may still use the connection that is about to end.
    let outcome = loop {
        match depot.add(1, 1) {
            Err(CallError::PeerDied(Outcome::Unknown)) => {}
            other => break other,
        }
    };
    assert_eq!(outcome, Err(CallError::PeerDied(Outcome::NotStarted)));
    let why = DepotClient::import_by(&Remote::new(), &server.address("depot"), Duration::ZERO).unwrap_err();
    assert!(matches!(why, ImportError::Unreachable(..)), "{why}");
}

#[test]
fn a_stateless_binding_goes_on_with_the_next_server() {
    let _watchdog = Watchdog::new("a_stateless_binding_goes_on_with_the_next_server");
    let mut server = RemoteProcess::start(BINARY);
    let depot = depot(&server);
    assert_eq!(depot.add(1, 1), Ok(2));
    for _ in 0..2 {
        server.kill();
        server.start_again();
        let sum = loop {
            match depot.add(1, 2) {
                Err(CallError::PeerDied(_)) => {}
                other => break other,
            }
        };
        assert_eq!(sum, Ok(3));
    }
}

#[test]
fn a_stateful_binding_ends_with_its_server() {
    let _watchdog = Watchdog::new("a_stateful_binding_ends_with_its_server");
    let mut server = RemoteProcess::start(BINARY);
    let import =
        |server: &RemoteProcess| TallyClient::import_by(&Remote::new(), &server.address("tally"), SOON);
    let tally = import(&server).unwrap();
    assert_eq!((tally.up(), tally.up()), (Ok(1), Ok(2)));
    server.kill();
    server.start_again();
    // The next server has not counted.
    for _ in 0..50 {
        assert!(matches!(tally.up(), Err(CallError::PeerDied(_))));
    }
    assert_eq!(tally.up(), Err(CallError::PeerDied(Outcome::NotStarted)));
    assert_eq!(import(&server).unwrap().up(), Ok(1), "no call of the other binding was executed");
}

#[test]
fn an_import_waits_for_its_server() {
    let _watchdog = Watchdog::new("an_import_waits_for_its_server");
    let mut server = RemoteProcess::start(BINARY);
    server.kill();
    let address = server.address("depot");
    let import = std::thread::spawn(move || DepotClient::import_by(&Remote::new(), &address, SOON));
    server.start_again();
    assert_eq!(import.join().unwrap().unwrap().add(2, 2), Ok(4));
}
