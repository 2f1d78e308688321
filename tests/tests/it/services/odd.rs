//! Environments that no honest manager makes. A server says what is wrong, and what to do.

use crate::services::manager::{
    Notifications, ServiceProcess, alone, copy, fails, names, socket, with_files,
};
use std::fs;
use std::io::Read;
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use underpass_os::Socket;
use underpass_tests::{Probe, ProbeClient, Room, ServerProcess, Watchdog};

/// Checks that an error has these parts.
fn says(error: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(error.contains(part), "no {part:?} in {error}"));
}

#[test]
fn sockets_for_another_process_are_not_taken() {
    let _watchdog = Watchdog::new("sockets_for_another_process_are_not_taken");
    let name = Room::name("elsewhere");
    let _listening = socket(&name, 0o600);
    let mut command = alone(&name, "serve");
    command.env("LISTEN_FDS", "1").env("LISTEN_PID", "1");
    says(&fails(command), &["the manager has passed it to process 1", "ExecStart="]);
    // Without that the name is just taken.
    says(&fails(alone(&name, "serve")), &["a living domain exports"]);
}

#[test]
fn files_that_are_no_socket_of_the_name_are_refused() {
    let _watchdog = Watchdog::new("files_that_are_no_socket_of_the_name_are_refused");
    let name = Room::name("odd-file");
    let named = |files| {
        let mut command = with_files(&name, "serve", files);
        command.env("LISTEN_FDNAMES", &name);
        fails(command)
    };
    // The low numbers may be files that the process has opened itself by then.
    let mut closed = with_files(&name, "serve", vec![]);
    closed.env("LISTEN_FDS", "1000");
    says(&fails(closed), &["is passed by LISTEN_FDS, but is not open"]);
    let kind = "ListenSequentialPacket=";
    says(&named(vec![fs::File::open("/dev/null").unwrap().into()]), &["file 3: it is no listening", kind]);
    says(&named(vec![Socket::pair().unwrap().1]), &["file 3: it is no listening", kind]);
    let path = names().join(&name);
    let stream = UnixListener::bind(&path).unwrap();
    says(&named(vec![copy(&stream)]), &["file 3: it is no listening", kind]);
    // The same without a name: the path says what it is for.
    says(&fails(with_files(&name, "serve", vec![stream.into()])), &["file 3: it is no listening"]);
    fs::remove_file(path).unwrap();
}

#[test]
fn sockets_that_stand_elsewhere_are_refused() {
    let _watchdog = Watchdog::new("sockets_that_stand_elsewhere_are_refused");
    let name = Room::name("odd-place");
    let another = socket(&Room::name("odd-place-other"), 0o600);
    let named = || {
        let mut command = with_files(&name, "serve", vec![copy(&another)]);
        command.env("LISTEN_FDNAMES", &name);
        fails(command)
    };
    let path = names().join(&name);
    says(&named(), &["nothing stands at", "ListenSequentialPacket="]);
    fs::write(&path, "").unwrap();
    says(&named(), &["no socket stands there"]);
    fs::remove_file(&path).unwrap();
    let _listening = socket(&name, 0o600);
    says(&named(), &["leads to another socket"]);
}

#[test]
fn a_socket_for_more_users_than_the_server_wants_is_refused() {
    let _watchdog = Watchdog::new("a_socket_for_more_users_than_the_server_wants_is_refused");
    let name = Room::name("odd-mode");
    let listening = socket(&name, 0o666);
    let error = fails(with_files(&name, "serve", vec![copy(&listening)]));
    says(&error, &["has mode 0666", "Server::mode(0o600)", "SocketMode=0600"]);
}

#[test]
fn variables_that_are_no_numbers_are_refused() {
    let _watchdog = Watchdog::new("variables_that_are_no_numbers_are_refused");
    let name = Room::name("odd-number");
    let manager = Notifications::at_path("odd-number-notify");
    for (set, said) in [
        (&[("LISTEN_FDS", "some"), ("LISTEN_PID", "1")][..], "LISTEN_FDS=some is no number of files"),
        (&[("LISTEN_FDS", "1")], "LISTEN_FDS is set, but LISTEN_PID is not"),
        (&[("LISTEN_FDS", "1"), ("LISTEN_PID", "me")], "LISTEN_PID=me is no process"),
        (&[("NOTIFY_SOCKET", "vsock:2:1")], "NOTIFY_SOCKET=vsock:2:1: it is no path and no abstract name"),
        (&[("WATCHDOG_USEC", "soon")], "WATCHDOG_USEC=soon is no number"),
        (&[("WATCHDOG_USEC", "1"), ("WATCHDOG_PID", "me")], "WATCHDOG_PID=me is no number"),
    ] {
        let mut command = manager.of_service(alone(&name, "serve"));
        command.envs(set.iter().copied());
        says(&fails(command), &[said]);
    }
    assert!(!names().join(&name).exists(), "nothing was exported");
}

#[test]
fn a_manager_that_is_gone_does_not_end_the_server() {
    let _watchdog = Watchdog::new("a_manager_that_is_gone_does_not_end_the_server");
    let (name, manager) = (Room::name("no-manager"), Notifications::at_path("no-manager-notify"));
    let mut command = manager.of_service(alone(&name, "serve"));
    drop(manager);
    let mut service = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = service.stderr.take().unwrap();
    let service = ServiceProcess::of(service);
    let probe = ProbeClient::import_within(&name, ServerProcess::soon());
    assert_eq!(probe.unwrap().add(1, 2), Ok(3));
    assert!(service.terminate().success());
    let mut said = String::new();
    errors.read_to_string(&mut said).unwrap();
    says(&said, &["was not told of Ready", "was not told of Stopping"]);
}
