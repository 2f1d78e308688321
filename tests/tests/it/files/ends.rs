//! Deaths, deadlines, panics and lack of room, with files in transit.

use crate::files::{SERVER, closed_everywhere, import, server, watched};
use std::process::Command;
use std::time::Duration;
use underpass::{CallError, thread};
use underpass_tests::{Files, Porter, PorterClient, Room, ServerProcess, Watchdog, fds_of_any_table, until};

#[test]
fn a_panic_closes_what_its_procedure_had() {
    let _watchdog = Watchdog::new("a_panic_closes_what_its_procedure_had");
    let server = server("panic");
    let porter = import(&server);
    let (file, reader) = watched();
    assert!(matches!(porter.panic(file), Err(CallError::Panicked(_))));
    closed_everywhere(reader);
}

#[test]
fn a_server_that_dies_leaves_no_file() {
    let _watchdog = Watchdog::new("a_server_that_dies_leaves_no_file");
    let server = server("dies");
    let porter = import(&server);
    let (file, reader) = watched();
    assert!(matches!(porter.die(file), Err(CallError::PeerDied(_))));
    // With the dead binding's stub still in hand.
    closed_everywhere(reader);
    let (file, reader) = watched();
    assert!(porter.read(file).is_err());
    closed_everywhere(reader);
}

#[test]
fn a_server_killed_with_many_calls_leaves_no_file() {
    let _watchdog = Watchdog::new("a_server_killed_with_many_calls_leaves_no_file");
    for round in 0..10 {
        let mut server = server(&format!("killed-{round}"));
        let porter = import(&server);
        let (readers, callers): (Vec<_>, Vec<_>) = (0..32)
            .map(|_| {
                let porter = porter.clone();
                let (file, reader) = watched();
                // Some files have arrived, and some are still in the socket.
                (reader, thread::spawn(move || drop(porter.hold(file))))
            })
            .unzip();
        until("some to come", || porter.held().is_ok_and(|held| held > round).then_some(()));
        server.kill();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        readers.into_iter().for_each(closed_everywhere);
    }
}

#[test]
fn a_client_that_dies_leaves_no_file() {
    let _watchdog = Watchdog::new("a_client_that_dies_leaves_no_file");
    let server = server("client-dies");
    let porter = import(&server);
    porter.null().unwrap();
    let before = Files::of(server.pid());
    for _ in 0..10 {
        let mut client = Command::new(SERVER).args([server.name(), "carry", "1000000000"]).spawn().unwrap();
        until("it to call", || (before.others() > 1).then_some(()));
        client.kill().unwrap();
        client.wait().unwrap();
        before.until_no_others();
    }
    let (file, reader) = watched();
    drop(porter.maybe(Some(file)).unwrap());
    closed_everywhere(reader);
}

fn late<T: std::fmt::Debug>(result: Result<T, CallError>) {
    assert!(matches!(result, Err(CallError::Deadline(_))), "{result:?}");
}

#[test]
fn the_files_of_a_call_given_up_are_closed() {
    let _watchdog = Watchdog::new("the_files_of_a_call_given_up_are_closed");
    let server = server("given-up");
    let porter = import(&server);
    let hasty = porter.with_deadline(Duration::from_millis(20));
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let (file, reader) = watched();
            late(hasty.hold(file));
            reader
        })
        .collect();
    // The calls return now, and nobody wants their results.
    porter.let_go().unwrap();
    readers.into_iter().for_each(closed_everywhere);
    let (file, reader) = watched();
    drop(porter.maybe(Some(file)).unwrap());
    closed_everywhere(reader);
}

#[test]
fn a_binding_given_up_leaves_no_file() {
    let _watchdog = Watchdog::new("a_binding_given_up_leaves_no_file");
    let server = server("dropped");
    let other = import(&server);
    let hasty = import(&server).with_deadline(Duration::from_millis(20));
    let (file, reader) = watched();
    late(hasty.hold(file));
    // The procedure continues, and its result is dropped.
    drop(hasty);
    other.let_go().unwrap();
    closed_everywhere(reader);
}

/// A server that can have at most `files` files open, and a client of it.
fn poor(of: &str, files: usize) -> (ServerProcess, PorterClient) {
    let name = Room::name(of);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\""), SERVER, &name, "porter"]);
    let server = ServerProcess::run(command, &name);
    let porter = import(&server);
    porter.null().unwrap();
    (server, porter)
}

fn no_room<T: std::fmt::Debug>(result: Result<T, CallError>) {
    assert!(matches!(result, Err(CallError::NoResources(..))), "{result:?}");
}

#[test]
fn want_of_files_is_the_error_of_one_call() {
    let _watchdog = Watchdog::new("want_of_files_is_the_error_of_one_call");
    let rich = server("rich");
    let (poor, porter) = poor("poor", 56);
    let before = Files::of(poor.pid());
    let has_room = || fds_of_any_table(poor.pid()) < 40;
    assert!(has_room(), "{} files", fds_of_any_table(poor.pid()));
    for _ in 0..20 {
        // The error occurs in three places: at the server of the call; at a client that gets more
        // files than it has room for; at a server that cannot make its result.
        let (file, reader) = watched();
        let files = (0..60).map(|_| file.try_clone().unwrap()).collect();
        drop(file);
        no_room(porter.count(files));
        closed_everywhere(reader);
        no_room(porter.fetch(rich.name(), 60));
        no_room(porter.several(60));
        // What came of the 60 files is closed after the error was told, by other threads.
        until("the files to be closed", || has_room().then_some(()));
        assert_eq!(porter.count(vec![watched().0]), Ok(1), "the binding goes on");
        assert_eq!(porter.fetch(rich.name(), 3), Ok(3));
    }
    before.until_no_others();
}
