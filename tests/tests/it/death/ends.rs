//! Each kind of end, and the error that the other side gets.

use crate::death::SERVER;
use underpass::{CallError, Outcome, thread};
use underpass_harness::alone;
use underpass_tests::{
    Files, Probe, ProbeClient, Room, ServerProcess, Subject, Watchdog, kernel_threads_of, regions_of, until,
};

fn import(server: &ServerProcess) -> ProbeClient {
    ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap()
}

fn died(result: Result<(), CallError>) {
    assert!(matches!(result, Err(CallError::PeerDied(_))), "{result:?}");
}

#[test]
fn callers_into_a_killed_server_are_told() {
    alone!();
    let _watchdog = Watchdog::new("callers_into_a_killed_server_are_told");
    let mut server = ServerProcess::start(SERVER, &Room::name("killed"), "probe");
    let client = import(&server);
    let user: Vec<_> = (0..20)
        .map(|_| {
            let client = client.clone();
            thread::spawn(move || client.nap(3_600_000))
        })
        .collect();
    let kernel: Vec<_> = (0..4)
        .map(|_| {
            let client = client.clone();
            std::thread::spawn(move || client.nap(3_600_000))
        })
        .collect();
    until("all calls to be under way", || (client.counters().calls >= 24).then_some(()));
    server.kill();
    user.into_iter().for_each(|t| died(t.join().unwrap()));
    kernel.into_iter().for_each(|t| died(t.join().unwrap()));
    assert_eq!(client.null(), Err(CallError::PeerDied(Outcome::NotStarted)));
}

#[test]
fn a_server_that_dies_in_a_call_is_told() {
    alone!();
    let _watchdog = Watchdog::new("a_server_that_dies_in_a_call_is_told");
    let server = ServerProcess::start(SERVER, &Room::name("suicide"), "probe");
    let client = import(&server);
    assert_eq!(client.die(), Err(CallError::PeerDied(Outcome::Unknown)));
}

#[test]
fn callers_that_wait_for_a_slot_are_told() {
    alone!();
    let _watchdog = Watchdog::new("callers_that_wait_for_a_slot_are_told");
    let mut server = ServerProcess::start(SERVER, &Room::name("queue"), "probe");
    let client = import(&server);
    let threads: Vec<_> = (0..130)
        .map(|_| {
            let client = client.clone();
            thread::spawn(move || client.nap(3_600_000))
        })
        .collect();
    until("all slots to be leased", || (client.counters().calls == 64).then_some(()));
    server.kill();
    threads.into_iter().for_each(|t| died(t.join().unwrap()));
}

#[test]
fn a_restarted_server_is_imported_again() {
    alone!();
    let _watchdog = Watchdog::new("a_restarted_server_is_imported_again");
    let name = Room::name("again");
    let mut server = ServerProcess::start(SERVER, &name, "probe");
    for _ in 0..5 {
        let client = import(&server);
        assert_eq!(client.pid(), Ok(server.pid()));
        server.kill();
        until("the death to be noticed", || client.null().is_err().then_some(()));
        server = ServerProcess::start(SERVER, &name, "probe");
    }
}

#[test]
fn a_killed_client_leaves_nothing_in_the_server() {
    alone!();
    let _watchdog = Watchdog::new("a_killed_client_leaves_nothing_in_the_server");
    let server = ServerProcess::start(SERVER, &Room::name("client"), "probe");
    let client = import(&server);
    client.null().unwrap();
    let (files, threads) = (Files::of(server.pid()), kernel_threads_of(server.pid()));
    const KILLED: usize = 20;
    for _ in 0..KILLED {
        // A process that imports, calls, and is killed in the middle of a call.
        let mut doomed = std::process::Command::new(SERVER).args([server.name(), "linger"]).spawn().unwrap();
        until("the other client to be bound", || (files.others() > 0).then_some(()));
        doomed.kill().unwrap();
        doomed.wait().unwrap();
        files.until_no_others();
        assert_eq!(client.add(1, 1), Ok(2));
    }
    // Activations and listeners may start late, but not one for each client.
    let grown = kernel_threads_of(server.pid()).saturating_sub(threads);
    assert!(grown < KILLED / 2, "{grown} kernel threads more");
    assert_eq!(regions_of(server.pid()), 1, "one region, that of the client that lives");
}

#[test]
fn a_dropped_client_leaves_nothing_on_either_side() {
    alone!();
    let _watchdog = Watchdog::new("a_dropped_client_leaves_nothing_on_either_side");
    let server = ServerProcess::start(SERVER, &Room::name("drop"), "probe");
    let keep = import(&server);
    keep.null().unwrap();
    let there = Files::of(server.pid());
    for _ in 0..50 {
        let client = import(&server);
        client.null().unwrap();
        drop(client);
    }
    there.until_no_others();
    until("its memory too", || (regions_of(server.pid()) == 1).then_some(()));
}

#[test]
fn a_stopped_export_tells_its_callers_that_it_closed() {
    alone!();
    let _watchdog = Watchdog::new("a_stopped_export_tells_its_callers_that_it_closed");
    let name = Room::name("stop");
    let running = underpass::Server::new().export(&name, Probe::serve(Subject::default())).start().unwrap();
    let before = underpass::counters().served;
    let client = std::process::Command::new(SERVER)
        .args([&name, "linger"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    until("the other process to call", || (underpass::counters().served > before + 2).then_some(()));
    running.stop();
    let output = client.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("the binding is closed"), "{told}");
}
