//! There is no memory for memory files.

use super::SERVER;
use std::process::{Command, Stdio};
use underpass::ImportError;
use underpass_harness::alone;
use underpass_tests::{ProbeClient, Room, ServerProcess, Watchdog};

/// The test program, where no file may have more than a few KiB. The kernel ends a process that
/// exceeds that.
fn limited() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 16; exec \"$0\" \"$@\"", SERVER]);
    command
}

#[test]
fn a_server_without_memory_for_a_binding_says_so_and_lives() {
    alone!();
    let _watchdog = Watchdog::new("a_server_without_memory_for_a_binding");
    let name = Room::name("small");
    let mut command = limited();
    command.args([name.as_str(), "probe"]);
    let _server = ServerProcess::run(command, &name);
    for _ in 0..10 {
        let refused = ProbeClient::import_within(&name, ServerProcess::soon()).unwrap_err();
        assert!(matches!(&refused, ImportError::Refused(_, why) if why.contains("ulimit -f")), "{refused}");
    }
}

#[test]
fn a_client_without_memory_for_an_argument_is_told_so_and_goes_on() {
    alone!();
    let _watchdog = Watchdog::new("a_client_without_memory_for_an_argument");
    let server = ServerProcess::start(SERVER, &Room::name("argument"), "probe");
    let output = limited().args([server.name(), "overfill"]).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}: {said}", output.status);
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[0].contains("ulimit -f") && lines[1..] == ["3 1048576"], "{said}");
}
