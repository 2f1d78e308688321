//! Servers that a signal asks to end.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use underpass::{CallError, ImportError, Outcome, thread};
use underpass_tests::{Log, Room, ServerProcess, Watchdog, Worker, WorkerClient, signal, until};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

/// A server that drains while a call is in progress.
struct Scene {
    server: ServerProcess,
    client: WorkerClient,
    log: Log,
    under_way: thread::JoinHandle<Result<(), CallError>>,
}

impl Scene {
    fn new(of: &str) -> Self {
        let name = Room::name(of);
        let log = Log::at(std::env::temp_dir().join(format!("underpass-{name}.log")));
        // A shell may have started these tests in the background, and then SIGINT is ignored.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT,TERM", SERVER, &name, "drain"]).env(Log::VARIABLE, log.path());
        let server = ServerProcess::run(command, &name);
        let client = WorkerClient::import(&name).unwrap();
        let waiting = client.clone();
        // The call ends when call 2 is executed.
        let under_way = thread::spawn(move || waiting.wait_for(1));
        until("the call to begin", || log.executed().contains_key(&1).then_some(()));
        Self { server, client, log, under_way }
    }

    /// Sends a signal, and waits until the server drains.
    fn drains(&self, by: &str) {
        signal(by, self.server.pid());
        let path = Room::directory().join(self.server.name());
        until("the name to be removed", || (!path.exists()).then_some(()));
        let turned_away = Err(CallError::Closed(Outcome::NotStarted));
        until("calls to be turned away", || (self.client.pid() == turned_away).then_some(()));
        let failed = WorkerClient::import(self.server.name()).unwrap_err();
        assert!(matches!(failed, ImportError::NotExported(_)), "{failed}");
    }

    /// How the server ends, and the result of the call.
    fn ends(mut self) -> (ExitStatus, Result<(), CallError>) {
        let status = self.server.ended();
        let _ = std::fs::remove_file(self.log.path());
        (status, self.under_way.join().unwrap())
    }
}

#[test]
fn a_server_that_is_terminated_answers_what_it_has_begun_and_ends_well() {
    let _watchdog = Watchdog::new("a_server_that_is_terminated");
    let scene = Scene::new("terminated");
    scene.drains("-TERM");
    scene.log.note(2);
    let (status, answer) = scene.ends();
    assert_eq!((status.code(), answer), (Some(0), Ok(())));
}

#[test]
fn a_server_that_is_interrupted_ends_by_that_signal_once_it_has_drained() {
    let _watchdog = Watchdog::new("a_server_that_is_interrupted");
    let scene = Scene::new("interrupted");
    scene.drains("-INT");
    scene.log.note(2);
    let (status, answer) = scene.ends();
    assert_eq!((status.signal(), answer), (Some(2), Ok(())));
}

#[test]
fn a_second_signal_ends_a_server_at_once() {
    let _watchdog = Watchdog::new("a_second_signal_ends_a_server_at_once");
    for (first, second, number) in [("-TERM", "-TERM", 15), ("-TERM", "-INT", 2)] {
        let scene = Scene::new(&format!("twice{second}"));
        scene.drains(first);
        signal(second, scene.server.pid());
        let (status, answer) = scene.ends();
        assert_eq!((status.signal(), answer), (Some(number), Err(CallError::PeerDied(Outcome::Unknown))));
    }
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let _watchdog = Watchdog::new("a_signal_that_is_ignored_stays_ignored");
    let name = Room::name("ignores");
    // As a shell starts a background command.
    let mut command = Command::new("sh");
    let log = Log::at(std::env::temp_dir().join(format!("underpass-{name}.log")));
    command.args(["-c", "trap '' INT; exec \"$0\" \"$@\"", SERVER, &name, "drain"]);
    command.env(Log::VARIABLE, log.path()).process_group(0);
    let mut server = ServerProcess::run(command, &name);
    let client = WorkerClient::import(&name).unwrap();
    signal("-INT", server.pid());
    signal("-TERM", server.pid());
    // The second signal made it drain, because it was the first that it saw.
    assert_eq!(server.ended().code(), Some(0));
    assert!(client.pid().is_err());
    let _ = std::fs::remove_file(log.path());
}

#[test]
fn a_server_that_was_replaced_leaves_the_name_to_its_successor_when_it_is_terminated() {
    let _watchdog = Watchdog::new("a_server_that_was_replaced_is_terminated");
    let mut scene = Scene::new("replaced");
    let name = scene.server.name().to_owned();
    let next = ServerProcess::start_with(SERVER, &name, "replace", |command| {
        command.env(Log::VARIABLE, scene.log.path());
    });
    scene.server.leave_the_name();
    let turned_away = Err(CallError::Closed(Outcome::NotStarted));
    until("the first to drain", || (scene.client.pid() == turned_away).then_some(()));
    signal("-TERM", scene.server.pid());
    scene.log.note(2);
    let (status, answer) = scene.ends();
    assert_eq!((status.code(), answer), (Some(0), Ok(())));
    assert_eq!(WorkerClient::import(&name).unwrap().pid(), Ok(next.pid()));
}
