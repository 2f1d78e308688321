//! Servers under a service manager, which passes them sockets and hears of them. The test plays the
//! manager, by the protocols of `sd_listen_fds(3)` and `sd_notify(3)`.

mod manager;
mod odd;

use manager::{Notifications, ServiceProcess, alone, copy, names, socket, with_files};
use std::io;
use std::process::Command;
use std::time::Duration;
use underpass::inspect::{Inspect, InspectClient};
use underpass::{CallError, ImportError};
use underpass_harness::skip;
use underpass_os::{Connected, Socket, clock};
use underpass_tests::{Probe, ProbeClient, Room, ServerProcess, Watchdog, until};

/// A client that waits for a server, in a kernel thread of its own.
fn client(name: &str) -> std::thread::JoinHandle<ProbeClient> {
    let name = name.to_owned();
    std::thread::spawn(move || ProbeClient::import_within(&name, ServerProcess::soon()).unwrap())
}

/// Waits until the other side has hung up.
fn hung_up(socket: &Socket) {
    assert!(socket.wait(clock::deadline_ns(Duration::from_secs(100))).unwrap(), "nobody hangs up");
    let got = socket.receive(&mut [0; 64]);
    assert!(got.as_ref().is_ok_and(|got| got.len == 0) || got.is_err(), "{got:?}");
}

#[test]
fn clients_wait_while_the_server_is_restarted() {
    let _watchdog = Watchdog::new("clients_wait_while_the_server_is_restarted");
    let (name, manager) = (Room::name("passed"), Notifications::at_path("passed-notify"));
    let listening = socket(&name, 0o600);
    let start = || manager.start(with_files(&name, "serve", vec![copy(&listening)]));
    // They come while there is no server at all.
    let early = Socket::connect(&names(), &name).unwrap();
    assert_eq!(early.peer().unwrap().pid.unsigned_abs(), std::process::id(), "the manager listens");
    let waits = client(&name);

    let first = start();
    // The server does not answer those who would take the manager for their peer. They come again.
    hung_up(&early);
    let peer = Socket::connect(&names(), &name).unwrap().peer().unwrap();
    assert_eq!(peer.pid.unsigned_abs(), first.pid());
    let probe = waits.join().unwrap();
    assert_eq!((probe.add(1, 2), probe.pid()), (Ok(3), Ok(first.pid())));

    first.kill();
    until("the end of the binding", || matches!(probe.add(1, 2), Err(CallError::PeerDied(_))).then_some(()));
    // It is no dead name: the next client waits for the next server.
    let waits = client(&name);
    let early = Socket::connect(&names(), &name).unwrap();
    let second = start();
    hung_up(&early);
    let probe = waits.join().unwrap();
    assert_eq!(probe.pid(), Ok(second.pid()));

    let ends = second.terminate();
    assert!(ends.success(), "{ends}");
    manager.wait_for("STOPPING=1");
    let _ = Socket::connect(&names(), &name).expect("the name stays with the manager");
    drop(listening);
    assert!(matches!(ProbeClient::import(&name), Err(ImportError::NotExported(_))));
}

#[test]
fn a_server_takes_its_socket_from_a_full_queue() {
    let _watchdog = Watchdog::new("a_server_takes_its_socket_from_a_full_queue");
    underpass_os::process::raise_files().unwrap();
    let (name, manager) = (Room::name("full"), Notifications::abstractly("full-notify"));
    let listening = socket(&name, 0o600);
    let mut early = Vec::new();
    let full = loop {
        match Socket::connect(&names(), &name) {
            Ok(socket) => early.push(socket),
            Err(e) => break e,
        }
    };
    assert_eq!(full.kind(), io::ErrorKind::WouldBlock, "{full} after {}", early.len());
    let _service = manager.start(with_files(&name, "serve", vec![copy(&listening)]));
    early.iter().for_each(hung_up);
    assert_eq!(client(&name).join().unwrap().add(1, 2), Ok(3));
}

#[test]
fn a_server_makes_the_sockets_that_it_was_not_passed() {
    let _watchdog = Watchdog::new("a_server_makes_the_sockets_that_it_was_not_passed");
    let (name, manager) = (Room::name("two"), Notifications::at_path("two-notify"));
    // One that is more private than the server asks for, and one for something else.
    let (listening, other) = (socket(&name, 0o600), socket(&Room::name("two-other"), 0o600));
    let service = manager.start(with_files(&name, "two", vec![copy(&other), copy(&listening)]));
    for name in [name.clone(), format!("{name}-own")] {
        let probe = client(&name).join().unwrap();
        assert_eq!(probe.pid(), Ok(service.pid()));
        let inspect = InspectClient::import(&name).unwrap();
        assert_eq!(inspect.export().unwrap().mode, 0o600);
    }
    assert!(service.terminate().success());
    let own = ProbeClient::import(&format!("{name}-own"));
    assert!(matches!(own, Err(ImportError::NotExported(_))), "it has removed its own name");
}

#[test]
fn a_process_takes_its_socket_again() {
    let _watchdog = Watchdog::new("a_process_takes_its_socket_again");
    let (name, manager) = (Room::name("twice"), Notifications::at_path("twice-notify"));
    let listening = socket(&name, 0o600);
    let service = manager.start(with_files(&name, "twice", vec![copy(&listening)]));
    assert_eq!(client(&name).join().unwrap().pid(), Ok(service.pid()));
}

#[test]
fn a_manager_hears_what_a_service_says() {
    let _watchdog = Watchdog::new("a_manager_hears_what_a_service_says");
    for manager in [Notifications::at_path("tell"), Notifications::abstractly("tell")] {
        let before = clock::now_ns() / 1000;
        let mut service = manager.of_service(alone("-", "tell")).spawn().unwrap();
        assert_eq!(manager.next(), "STATUS=two lines");
        let reloading = manager.next();
        let at = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect(&reloading);
        let at: u64 = at.parse().unwrap();
        assert!((before..=clock::now_ns() / 1000).contains(&at), "{at}");
        assert_eq!(manager.next(), "READY=1");
        assert_eq!(manager.next(), format!("MAINPID={}", service.id()));
        assert_eq!(manager.next(), "STOPPING=1");
        assert!(service.wait().unwrap().success());
    }
}

#[test]
fn a_service_that_works_pleases_the_watchdog() {
    let _watchdog = Watchdog::new("a_service_that_works_pleases_the_watchdog");
    let (name, manager) = (Room::name("alive"), Notifications::at_path("alive-notify"));
    let mut command = alone(&name, "serve");
    command.env("WATCHDOG_USEC", "20000");
    let service = manager.start(command);
    (0..3).for_each(|_| manager.wait_for("WATCHDOG=1"));
    assert!(service.terminate().success());
    manager.wait_for("STOPPING=1");
    let _ = std::fs::remove_file(names().join(&name));

    // Another process is meant.
    let mut command = alone(&name, "serve");
    command.env("WATCHDOG_USEC", "1").env("WATCHDOG_PID", "1");
    let service = manager.start(command);
    assert!(service.terminate().success());
    assert_eq!(manager.next(), "STOPPING=1");
}

/// The manager that `systemd` brings for tests: it starts the service when the first client comes.
#[test]
fn systemd_starts_a_service_for_its_first_client() {
    let _watchdog = Watchdog::new("systemd_starts_a_service_for_its_first_client");
    let name = Room::name("systemd");
    let mut manager = Command::new("systemd-socket-activate");
    let path = names().join(&name);
    manager.arg("--seqpacket").arg("--listen").arg(&path).arg("--setenv=UNDERPASS_DIR");
    manager.args([env!("CARGO_BIN_EXE_underpass-test-service"), &name, "serve"]);
    let service = match manager.env("UNDERPASS_DIR", names().path()).spawn() {
        Ok(child) => ServiceProcess::of(child),
        Err(e) if e.kind() == io::ErrorKind::NotFound => skip!("there is no systemd-socket-activate"),
        Err(e) => panic!("{e}"),
    };
    until("the manager's socket", || path.exists().then_some(()));
    // It makes the socket for everybody. Its client is the first one.
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let probe = client(&name).join().unwrap();
    // It becomes the service.
    assert_eq!((probe.add(1, 2), probe.pid()), (Ok(3), Ok(service.pid())));
    assert!(service.terminate().success());
    std::fs::remove_file(path).unwrap();
}
