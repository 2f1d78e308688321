//! System calls of a domain in a sandbox: which it can make, and what happens to it and to others.

use crate::sandbox::{Killed, SANDBOXED, Scene, is_root, sandbox};
use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use underpass::sandbox::{Ended, Measure};
use underpass::{CallError, ImportError};
use underpass_harness::alone;
use underpass_tests::{Captive, CaptiveClient, Probe, Room, ServerProcess, Watchdog, until};

/// Misdeeds that end the domain, and the system call by which they are detected. The others are
/// refused with `EACCES`.
const FORBIDDEN: &[(&str, &str)] = &[
    ("connect to a port", "socket"),
    ("bind a port", "socket"),
    ("bind a name", "socket"),
    ("connect to a name", "socket"),
    ("make a socket pair", "socketpair"),
    ("fork", "fork"),
    ("clone", "clone"),
    ("execve", "execve"),
    ("kill", "kill"),
    ("tgkill", "tgkill"),
    ("ptrace", "ptrace"),
    ("process_vm_readv", "process_vm_readv"),
    ("pidfd_open", "pidfd_open"),
    ("raise a limit", "prlimit64"),
    ("limit another", "prlimit64"),
    ("map code", "mmap"),
    ("send others signals", "fcntl"),
    ("lose privileges", "prctl"),
    ("unshare", "unshare"),
    ("io_uring_setup", "io_uring_setup"),
];

const REFUSED: &[&str] =
    &["read a file", "write a file", "look at a file", "list a directory", "find oneself", "ask a terminal"];

/// The targets of the misdeeds.
struct Targets {
    port: TcpListener,
    /// A process that others may be tempted to harm.
    victim: Killed,
}

impl Targets {
    fn new() -> Self {
        let victim = Killed(Command::new("sleep").arg("1000").spawn().unwrap());
        Self { port: TcpListener::bind("127.0.0.1:0").unwrap(), victim }
    }

    fn of(&self, deed: &str) -> u64 {
        match deed {
            "connect to a port" => self.port.local_addr().unwrap().port().into(),
            _ => self.victim.0.id().into(),
        }
    }
}

#[test]
fn each_misdeed_succeeds_without_a_sandbox() {
    alone!();
    let _watchdog = Watchdog::new("each_misdeed_succeeds_without_a_sandbox");
    let name = Room::name("free");
    let mut command = Command::new(SANDBOXED);
    command.arg(&name);
    let _server = ServerProcess::run(command, &name);
    let captive = CaptiveClient::import_within(&name, ServerProcess::soon()).unwrap();
    let targets = Targets::new();
    // Many systems have switched the first off for all users, and the second is reserved to root.
    let possible = |deed: &&str| *deed != "io_uring_setup" && (*deed != "unshare" || is_root());
    let forbidden = FORBIDDEN.iter().map(|(deed, _)| *deed).filter(possible);
    for deed in forbidden.chain(REFUSED.iter().copied()).chain(["start a program", "clone3"]) {
        assert_eq!(captive.attempt(deed, targets.of(deed)).as_deref(), Ok("done"), "{deed}");
    }
    // The name of its second export would remain.
    fs::remove_file(Room::directory().join(format!("{name}-probe"))).unwrap();
}

#[test]
fn files_are_refused_and_the_domain_goes_on() {
    alone!();
    let _watchdog = Watchdog::new("files_are_refused_and_the_domain_goes_on");
    let scene = Scene::new("files");
    for deed in REFUSED {
        assert_eq!(scene.captive.attempt(deed, 0).as_deref(), Ok("errno 13"), "{deed}");
    }
    assert_eq!(scene.captive.attempt("clone3", 0).as_deref(), Ok("errno 38"));
    assert_eq!(scene.probe().add(1, 2), Ok(3));
}

#[test]
fn a_call_that_reaches_others_ends_the_domain_and_is_named() {
    alone!();
    let _watchdog = Watchdog::new("a_call_that_reaches_others_ends_the_domain_and_is_named");
    let targets = Targets::new();
    let name = Room::name("forbidden");
    let sandbox = sandbox(&name);
    for (deed, call) in FORBIDDEN {
        let scene = Scene::of(&name, &sandbox);
        let ended = scene.ends_of(deed, targets.of(deed));
        assert_eq!(ended.forbidden_call(), Some(*call), "{deed}: {ended:?}");
        assert!(ended.to_string().contains(call), "{ended}");
    }
    // The C library does this with all signals blocked, by a system call of its choice.
    let scene = Scene::of(&name, &sandbox);
    assert!(scene.domain.report().holds(Measure::CallNames), "{}", scene.domain.report());
    let ended = scene.ends_of("start a program", 0);
    assert!(ended.forbidden_call().is_some(), "{ended:?}");
}

#[test]
fn a_domain_serves_nobody_before_it_is_restricted() {
    alone!();
    let _watchdog = Watchdog::new("a_domain_serves_nobody_before_it_is_restricted");
    let name = Room::name("early");
    // A kernel thread takes no signals, so Landlock waits for it in vain, for seconds.
    let sandbox = sandbox(&name).env("UNDERPASS_TEST_HOLD", "1");
    std::thread::scope(|scope| {
        let starter = scope.spawn(|| sandbox.start().unwrap());
        let captive = until("a binding", || {
            match CaptiveClient::import_within(&name, ServerProcess::soon()) {
                // An importer does not wait much longer than the restriction takes here.
                Err(ImportError::NoAnswer(..)) => None,
                other => Some(other.unwrap()),
            }
        });
        assert_eq!(captive.attempt("read a file", 0).as_deref(), Ok("errno 13"));
        let domain = starter.join().unwrap();
        let why = domain.report().missing().find(|(of, _)| *of == Measure::Files);
        assert!(why.is_some_and(|(_, why)| why.contains("signal") || why.contains("lsm")), "{why:?}");
    });
}

#[test]
fn a_domain_that_catches_sigsys_is_ended_too() {
    alone!();
    let _watchdog = Watchdog::new("a_domain_that_catches_sigsys_is_ended_too");
    let ended = Scene::new("catch").ends_of("catch SIGSYS", 0);
    assert_eq!(ended.forbidden_call(), Some("socket"), "{ended:?}");
    // Chance decides whether the listener learns which call it was.
    let ended = Scene::new("take-back").ends_of("take calls back", 0);
    assert!(matches!(ended, Ended::Forbidden { .. }), "{ended:?}");
}

#[test]
fn a_domain_without_a_listener_is_ended_without_the_calls_name() {
    alone!();
    let _watchdog = Watchdog::new("a_domain_without_a_listener_is_ended_without_the_calls_name");
    let name = Room::name("unheard");
    // A process can have only one listener.
    let mut starter = Command::new(SANDBOXED);
    starter.args(["starter", &name]).env("UNDERPASS_TEST_LISTENER", "1").stderr(Stdio::null());
    let starter = starter.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let captive = CaptiveClient::import_within(&name, ServerProcess::soon()).unwrap();
    let failed = captive.attempt("catch SIGSYS", 0).unwrap_err();
    assert!(matches!(failed, CallError::PeerDied(_)), "{failed:?}");
    let said = String::from_utf8(starter.wait_with_output().unwrap().stdout).unwrap();
    assert!(said.contains("ended: Forbidden { number: None }\n"), "{said}");
    assert!(said.contains(&format!("{}: holds\n", Measure::Calls)), "{said}");
    assert!(said.contains(&format!("{}: does not hold (", Measure::CallNames)), "{said}");
}

#[test]
fn a_lenient_sandbox_refuses_and_goes_on() {
    alone!();
    let _watchdog = Watchdog::new("a_lenient_sandbox_refuses_and_goes_on");
    let targets = Targets::new();
    let name = Room::name("lenient");
    let scene = Scene::of(&name, &sandbox(&name).lenient());
    assert!(!scene.domain.report().holds(Measure::CallNames), "{}", scene.domain.report());
    for (deed, _) in FORBIDDEN {
        assert_eq!(scene.captive.attempt(deed, targets.of(deed)).as_deref(), Ok("errno 1"), "{deed}");
    }
    for deed in REFUSED {
        assert_eq!(scene.captive.attempt(deed, 0).as_deref(), Ok("errno 13"), "{deed}");
    }
    assert_eq!(scene.probe().add(1, 2), Ok(3));
}
