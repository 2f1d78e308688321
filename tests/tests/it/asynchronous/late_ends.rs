//! Bindings that end while calls of theirs wait for late answers. This process is the server, and
//! the client is a process of its own.

use crate::asynchronous::callers::SERVER;
use crate::asynchronous::start_timers;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;
use underpass::{CallError, Outcome, Running, Server, Service};
use underpass_harness::alone;
use underpass_tests::{Room, ServerProcess, SlowAsync, Waiting, Watchdog, one_thread, regions_of, until};

/// More than the slots of two channels.
const MANY: usize = 300;

/// A server, and a client whose calls wait at its gate.
struct Scene {
    gate: Waiting,
    running: Option<Running>,
    client: Child,
    name: String,
}

impl Scene {
    fn new(of: &str, with: impl FnOnce(Service) -> Service) -> Self {
        let (name, gate) = (Room::name(of), Waiting::default());
        let service = with(SlowAsync::serve(gate.clone(), one_thread()));
        let running = Server::new().export(&name, service).start().unwrap();
        let mut client = Command::new(SERVER);
        client.args([&name, "lasting", &MANY.to_string()]).stdout(Stdio::piped());
        Self { gate, running: Some(running), client: client.spawn().unwrap(), name }
    }

    /// Waits until as many calls are under way. More than have a slot are late.
    fn until_waiting(&self, count: usize) {
        until("the calls to wait", || (self.gate.count() == count).then_some(()));
    }

    /// The handlers go on, and what they answer goes nowhere. Then the connection's memory is free.
    fn ends(self) {
        assert!(self.gate.count() > 0);
        self.gate.admit(true);
        self.until_waiting(0);
        until("the connection to be gone", || (regions_of(std::process::id()) == 0).then_some(()));
    }
}

/// What the client's calls returned.
fn outcomes(client: &mut Child) -> Vec<String> {
    let mut said = String::new();
    client.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(client.wait().unwrap().success());
    said.lines().map(str::to_owned).collect()
}

/// How such a call is told.
fn told(result: Result<usize, CallError>) -> String {
    format!("{result:?}")
}

#[test]
fn late_calls_of_a_revoked_binding_end_and_their_handlers_go_on() {
    alone!();
    start_timers();
    let _watchdog = Watchdog::new("late_calls_of_a_revoked_binding_end");
    let mut scene = Scene::new("late-revoked", |service| service);
    scene.until_waiting(MANY);
    assert_eq!(scene.running.as_ref().unwrap().bindings().revoke(|_| true), 1);
    assert_eq!(outcomes(&mut scene.client), vec![told(Err(CallError::Revoked(Outcome::Unknown))); MANY]);
    scene.ends();
}

#[test]
fn late_calls_of_a_binding_whose_time_is_over_end_and_their_handlers_go_on() {
    alone!();
    start_timers();
    let _watchdog = Watchdog::new("late_calls_of_a_binding_whose_time_is_over_end");
    let mut scene = Scene::new("late-expired", |service| service.expires_in(Duration::from_secs(2)));
    until("some calls to wait", || (scene.gate.count() > 0).then_some(()));
    let outcomes = outcomes(&mut scene.client);
    assert_eq!(outcomes.len(), MANY);
    // On a busy machine, some come too late.
    let known = [Outcome::Unknown, Outcome::NotStarted].map(|what| told(Err(CallError::Revoked(what))));
    assert!(outcomes.iter().all(|outcome| known.contains(outcome)), "{outcomes:?}");
    assert!(outcomes.contains(&known[0]), "{outcomes:?}");
    scene.ends();
}

#[test]
fn a_server_that_drains_gives_its_late_answers_first() {
    let _watchdog = Watchdog::new("a_server_that_drains_gives_its_late_answers_first");
    let mut scene = Scene::new("late-drained", |service| service);
    scene.until_waiting(MANY);
    let path = Room::directory().join(&scene.name);
    let running = scene.running.take().unwrap();
    let drains = std::thread::spawn(move || running.shutdown(Duration::from_secs(3600)));
    until("the server to take its name away", || (!path.exists()).then_some(()));
    scene.gate.admit(true);
    assert_eq!(outcomes(&mut scene.client), vec![told(Ok(1)); MANY]);
    assert_eq!(drains.join().unwrap(), 0, "no call was cut off");
}

#[test]
fn a_server_that_drains_in_vain_cuts_late_calls_off() {
    alone!();
    start_timers();
    let _watchdog = Watchdog::new("a_server_that_drains_in_vain_cuts_late_calls_off");
    let mut scene = Scene::new("late-cut", |service| service);
    scene.until_waiting(MANY);
    assert_eq!(scene.running.take().unwrap().shutdown(Duration::from_millis(1)), 1, "binding");
    assert_eq!(outcomes(&mut scene.client), vec![told(Err(CallError::Closed(Outcome::Unknown))); MANY]);
    scene.ends();
}

#[test]
fn a_server_that_is_replaced_gives_its_late_answers() {
    let _watchdog = Watchdog::new("a_server_that_is_replaced_gives_its_late_answers");
    let mut scene = Scene::new("late-replaced", |service| service);
    scene.until_waiting(MANY);
    let (running, (tell, replaced)) = (scene.running.take().unwrap(), channel());
    let drains = std::thread::spawn(move || {
        running.until_replaced();
        tell.send(()).unwrap();
        running.shutdown(Duration::from_secs(3600))
    });
    let _next = ServerProcess::start(SERVER, &scene.name, "replace");
    replaced.recv().unwrap();
    scene.gate.admit(true);
    assert_eq!(outcomes(&mut scene.client), vec![told(Ok(1)); MANY]);
    assert_eq!(drains.join().unwrap(), 0, "no call was cut off");
}
