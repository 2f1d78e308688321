//! A server and a client run out of open files.

use super::SERVER;
use std::process::{Command, Stdio};
use underpass_harness::alone;
use underpass_os::{Directory, Socket};
use underpass_tests::{Probe, ProbeClient, Room, ServerProcess, Watchdog, fds_of, until};

/// The test program, limited to `files` open files.
fn limited(files: usize) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\""), SERVER]);
    command
}

#[test]
fn a_server_without_a_file_left_serves_those_it_has_and_takes_in_others_later() {
    alone!();
    const FILES: usize = 120;
    let _watchdog = Watchdog::new("a_server_without_a_file_left");
    let name = Room::name("full");
    let mut command = limited(FILES);
    command.args([name.as_str(), "probe"]);
    let server = ServerProcess::run(command, &name);
    let keep = ProbeClient::import_within(&name, ServerProcess::soon()).unwrap();
    assert_eq!(keep.add(1, 2), Ok(3));
    let directory = Directory::from_environment();
    // More than there are files for, and fewer than are closed to make room for the next ones.
    let silent: Vec<_> = (0..2 * FILES).map(|_| Socket::connect(&directory, &name).unwrap()).collect();
    until("most of its files to be open", || (fds_of(server.pid()) > FILES / 2).then_some(()));
    for _ in 0..1_000 {
        assert_eq!(keep.add(1, 2), Ok(3));
    }
    drop(silent);
    let late = until("room for another", || ProbeClient::import(&name).ok());
    assert_eq!((late.add(3, 4), keep.add(1, 2)), (Ok(7), Ok(3)));
}

#[test]
fn a_client_without_a_file_left_is_told_so_and_goes_on() {
    alone!();
    let _watchdog = Watchdog::new("a_client_without_a_file_left");
    let server = ServerProcess::start(SERVER, &Room::name("exhaust"), "probe");
    let mut command = limited(64);
    let output = command.args([server.name(), "exhaust"]).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<_> = said.lines().collect();
    let [import, export, argument, result, small, again] = lines[..] else { panic!("{said}") };
    for refused in [import, export, argument, result] {
        assert!(refused.contains("ulimit -n"), "{refused}");
    }
    assert_eq!((small, again), ("3", "3 3 1048576"));
}
