//! A client that executes another program passes no binding on to it.

use super::SERVER;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use underpass_harness::alone;
use underpass_tests::{Probe, ProbeClient, Room, ServerProcess, Watchdog, regions_of, until};

#[test]
fn an_executed_program_has_no_file_of_a_binding_and_the_server_learns_of_it() {
    alone!();
    let _watchdog = Watchdog::new("an_executed_program_has_no_file_of_a_binding");
    let server = ServerProcess::start(SERVER, &Room::name("exec"), "probe");
    let keep = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    assert_eq!(keep.add(1, 2), Ok(3));
    let mut client = Command::new(SERVER)
        .args([server.name(), "execute"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let comm = format!("/proc/{}/comm", client.id());
    let executed = || std::fs::read_to_string(&comm).is_ok_and(|name| name.trim() == "cat").then_some(());
    until("another program", executed);
    // Files that it has inherited from the test runner are not among them.
    let files = std::fs::read_dir(format!("/proc/{}/fd", client.id())).unwrap().flatten();
    let names: Vec<_> = files.filter_map(|file| std::fs::read_link(file.path()).ok()).collect();
    let ours = |name: &PathBuf| {
        ["socket:", "/memfd:", "anon_inode:"].iter().any(|ours| name.to_string_lossy().starts_with(ours))
    };
    assert!(!names.iter().any(ours), "{names:?}");
    until("the server to clear its binding away", || (regions_of(server.pid()) == 1).then_some(()));
    assert_eq!(keep.add(1, 2), Ok(3));
    drop(client.stdin.take());
    let mut said = String::new();
    client.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.starts_with("calls 3\n") && client.wait().unwrap().success(), "{said}");
}
