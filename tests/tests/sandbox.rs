//! Domains in a sandbox: what they can do, what they can't, and what their end costs.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use underpass::sandbox::{Domain, Ended, Measure, StartError};
use underpass::{CallError, Outcome, Sandbox, thread};
use underpass_tests::{
    Captive, CaptiveClient, Probe, ProbeClient, Room, ServerProcess, Watchdog, crowd, fds_of, until,
};

const SANDBOXED: &str = env!("CARGO_BIN_EXE_underpass-test-sandboxed");
const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

/// What ends a domain that tries it, and by which call; the rest is refused by `EACCES`.
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

fn sandbox(name: &str) -> Sandbox {
    Sandbox::program(SANDBOXED).arg(name).silent().patience(Duration::from_secs(60))
}

/// A domain in a sandbox, and a binding to it.
struct Scene {
    domain: Domain,
    captive: CaptiveClient,
    name: String,
}

impl Scene {
    fn of(name: &str, sandbox: &Sandbox) -> Self {
        let domain = sandbox.start().unwrap();
        // A kernel may lack a wall; none of ours comes late to it.
        assert!(!domain.report().to_string().contains("takes no signal"), "{}", domain.report());
        let captive = CaptiveClient::import(name).unwrap_or_else(|e| panic!("{e}; {:?}", domain.ended()));
        Self { domain, captive, name: name.to_owned() }
    }

    fn new(of: &str) -> Self {
        let name = Room::name(of);
        Self::of(&name, &sandbox(&name))
    }

    fn probe(&self) -> ProbeClient {
        ProbeClient::import(&format!("{}-probe", self.name)).unwrap()
    }

    /// The domain ends of `deed`; gives how.
    fn ends_of(&self, deed: &str, target: u64) -> Ended {
        let failed = self.captive.attempt(deed, target).unwrap_err();
        assert!(matches!(failed, CallError::PeerDied(_)), "{deed}: {failed:?}");
        self.domain.wait()
    }
}

/// A child that is killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Where each misdeed would have a target.
struct Targets {
    port: TcpListener,
    /// Others may be tempted to harm it.
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

/// Only root can look at what a domain has that lets nobody look into it.
fn is_root() -> bool {
    underpass_os::process::user() == 0
}

/// Files, kernel threads and children are counted by the process: who counts is alone.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn an_honest_domain_serves_as_any_other() {
    let _watchdog = Watchdog::new("an_honest_domain_serves_as_any_other");
    let _alone = alone();
    let outside = ServerProcess::start(SERVER, &Room::name("honest-outside"), "probe");
    let name = Room::name("honest");
    let scene = Scene::of(&name, &sandbox(&name).arg(outside.name()).env("RUST_BACKTRACE", "1"));
    let probe = scene.probe();
    assert_eq!(probe.add(1, 2), Ok(3));
    // Over the A-stack, and through files in memory, either way.
    for len in [40, 20_000, 3 << 20] {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        assert_eq!(probe.echo(&bytes), Ok(bytes));
    }
    // Callers at once, from both kinds of threads, some of which wait for one another there.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| probe.meet(4).unwrap());
        }
    });
    let calls: Vec<_> = (0..50u8)
        .map(|n| {
            let probe = probe.clone();
            thread::spawn(move || {
                probe.nap(u64::from(n % 5)).unwrap();
                probe.add(n, 1).unwrap()
            })
        })
        .collect();
    let sums: Vec<u8> = calls.into_iter().map(|call| call.join().unwrap()).collect();
    assert_eq!(sums, (1..=50).collect::<Vec<u8>>());
    assert_eq!(scene.captive.block(5), Ok(()));
    assert_eq!(scene.captive.threads(8), Ok((0..8).map(|n| 2 * n + 1).sum()));
    assert_eq!(scene.captive.ask(20, 22), Ok(42), "a binding that it imported before");
    assert_eq!(probe.panic("ouch"), Err(CallError::Panicked("ouch".to_owned())));
    assert_eq!(probe.add(1, 2), Ok(3));
    assert_eq!(scene.domain.ended(), None);
    assert_eq!(scene.domain.end(), Ended::Killed);
    assert!(matches!(probe.null(), Err(CallError::PeerDied(_))));
}

#[test]
fn callers_that_contend_get_channels_of_their_own() {
    let _watchdog = Watchdog::new("callers_that_contend_get_channels_of_their_own");
    let _alone = alone();
    let scene = Scene::new("channels");
    let bytes = vec![7; 100_000];
    let echoed = crowd(&scene.probe(), move |probe, _, _| probe.echo(&bytes) == Ok(bytes.clone()));
    assert!(echoed.is_none_or(|both| both == [true, true]));
    assert_eq!(scene.domain.ended(), None);
}

#[test]
fn what_is_tried_is_possible_without_a_sandbox() {
    let _watchdog = Watchdog::new("what_is_tried_is_possible_without_a_sandbox");
    let _alone = alone();
    let name = Room::name("free");
    let mut command = Command::new(SANDBOXED);
    command.arg(&name);
    let _server = ServerProcess::run(command, &name);
    let captive = CaptiveClient::import_within(&name, ServerProcess::soon()).unwrap();
    let targets = Targets::new();
    // Many systems have switched the one off for all, and the other is root's.
    let possible = |deed: &&str| *deed != "io_uring_setup" && (*deed != "unshare" || is_root());
    let forbidden = FORBIDDEN.iter().map(|(deed, _)| *deed).filter(possible);
    for deed in forbidden.chain(REFUSED.iter().copied()).chain(["start a program", "clone3"]) {
        assert_eq!(captive.attempt(deed, targets.of(deed)).as_deref(), Ok("done"), "{deed}");
    }
    // It leaves no name of its second export behind.
    fs::remove_file(Room::directory().join(format!("{name}-probe"))).unwrap();
}

#[test]
fn files_are_refused_and_the_domain_goes_on() {
    let _watchdog = Watchdog::new("files_are_refused_and_the_domain_goes_on");
    let _alone = alone();
    let scene = Scene::new("files");
    for deed in REFUSED {
        assert_eq!(scene.captive.attempt(deed, 0).as_deref(), Ok("errno 13"), "{deed}");
    }
    assert_eq!(scene.captive.attempt("clone3", 0).as_deref(), Ok("errno 38"));
    assert_eq!(scene.probe().add(1, 2), Ok(3));
}

#[test]
fn what_reaches_others_ends_the_domain_and_is_told_by_name() {
    let _watchdog = Watchdog::new("what_reaches_others_ends_the_domain_and_is_told_by_name");
    let _alone = alone();
    let targets = Targets::new();
    let name = Room::name("forbidden");
    let sandbox = sandbox(&name);
    for (deed, call) in FORBIDDEN {
        let scene = Scene::of(&name, &sandbox);
        let ended = scene.ends_of(deed, targets.of(deed));
        assert_eq!(ended.forbidden_call(), Some(*call), "{deed}: {ended:?}");
        assert!(ended.to_string().contains(call), "{ended}");
    }
    // The C library does it with all signals blocked, so the domain can't say by which call.
    let ended = Scene::of(&name, &sandbox).ends_of("start a program", 0);
    assert!(matches!(ended, Ended::Forbidden { .. }), "{ended:?}");
}

#[test]
fn a_lenient_sandbox_refuses_and_goes_on() {
    let _watchdog = Watchdog::new("a_lenient_sandbox_refuses_and_goes_on");
    let _alone = alone();
    let targets = Targets::new();
    let name = Room::name("lenient");
    let scene = Scene::of(&name, &sandbox(&name).lenient());
    for (deed, _) in FORBIDDEN {
        assert_eq!(scene.captive.attempt(deed, targets.of(deed)).as_deref(), Ok("errno 1"), "{deed}");
    }
    for deed in REFUSED {
        assert_eq!(scene.captive.attempt(deed, 0).as_deref(), Ok("errno 13"), "{deed}");
    }
    assert_eq!(scene.probe().add(1, 2), Ok(3));
}

#[test]
fn memory_beyond_the_limit_costs_the_domain_alone() {
    let _watchdog = Watchdog::new("memory_beyond_the_limit_costs_the_domain_alone");
    let _alone = alone();
    let name = Room::name("memory");
    let sandbox = sandbox(&name).memory(64 << 20).largest(4 << 20);
    let scene = Scene::of(&name, &sandbox);
    assert_eq!(scene.captive.attempt("reserve", 32 << 20).as_deref(), Ok("done"));
    assert_eq!(scene.captive.attempt("reserve", 80 << 20).as_deref(), Ok("errno 12"));
    assert_eq!(scene.probe().fill(1 << 20).unwrap().len(), 1 << 20);
    let failed = scene.probe().fill(8 << 20).unwrap_err();
    assert!(
        matches!(failed, CallError::NoResources(Outcome::Executed, _)),
        "a result of more than `largest`: {failed:?}"
    );
    assert_eq!(scene.ends_of("eat", 0), Ended::Signal(6));
    drop(scene);
    assert_eq!(Scene::of(&name, &sandbox).probe().add(1, 2), Ok(3));
}

#[test]
fn a_loop_is_ended_by_its_deadline_or_its_processor_time() {
    let _watchdog = Watchdog::new("a_loop_is_ended_by_its_deadline_or_its_processor_time");
    let _alone = alone();
    let name = Room::name("loop");
    let sandbox = sandbox(&name).processor_time(Duration::from_millis(300));
    let scene = Scene::of(&name, &sandbox);
    assert_eq!(scene.ends_of("spin", 0), Ended::ProcessorTime);
    drop(scene);

    let unbounded = Sandbox::program(SANDBOXED).arg(&name).silent().patience(Duration::from_secs(60));
    let scene = Scene::of(&name, &unbounded);
    let (hour, moment) = (Duration::from_secs(3600), Duration::from_millis(50));
    // Deadlines that are kept cost nothing, in whatever order they come and go.
    for time in [hour, 2 * hour, hour / 2] {
        assert_eq!(scene.domain.within(time, || scene.captive.attempt("reserve", 1)).as_deref(), Ok("done"));
    }
    let failed = scene
        .domain
        .within(hour, || scene.domain.within(moment, || scene.captive.attempt("spin", 0)).unwrap_err());
    assert!(matches!(failed, CallError::PeerDied(_)), "{failed:?}");
    assert_eq!(scene.domain.wait(), Ended::Late(moment));
}

#[test]
fn a_crash_and_an_exit_are_told_apart() {
    let _watchdog = Watchdog::new("a_crash_and_an_exit_are_told_apart");
    let _alone = alone();
    assert_eq!(Scene::new("crash").ends_of("crash", 0), Ended::Signal(11));
    assert_eq!(Scene::new("exit").ends_of("exit", 0), Ended::Exited(7));
}

/// The fields of `status` of each kernel thread of a process that doesn't end meanwhile.
fn statuses(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let status = |task: fs::DirEntry| match fs::read_to_string(task.path().join("status")) {
        Ok(status) => Some(status),
        // One of its threads has ended.
        Err(_) if !task.path().exists() => None,
        Err(error) => panic!("{error}"),
    };
    tasks.filter_map(|task| status(task.unwrap())).collect()
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in\n{status}")).trim()
}

#[test]
fn the_walls_stand_around_every_kernel_thread() {
    let _watchdog = Watchdog::new("the_walls_stand_around_every_kernel_thread");
    let _alone = alone();
    let scene = Scene::new("walls");
    // Some are started afterwards.
    scene.captive.threads(4).unwrap();
    let (report, pid) = (scene.domain.report(), scene.domain.pid());
    for measure in [Measure::Calls, Measure::Limits, Measure::Capabilities, Measure::Privacy] {
        assert!(report.holds(measure), "{report}");
    }
    for measure in [Measure::Files, Measure::Network] {
        // But for kernels that have none.
        let why = report.missing().find(|(of, _)| *of == measure);
        assert!(why.is_none_or(|(_, why)| why.contains("/sys/kernel/security/lsm")), "{report}");
    }
    let all = statuses(pid);
    assert!(all.len() > 3, "a runtime has kernel threads");
    for status in &all {
        assert_eq!(field(status, "NoNewPrivs"), "1");
        assert_eq!(field(status, "Seccomp"), "2");
        assert_eq!(field(status, "Seccomp_filters"), "3");
        for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
            assert_eq!(field(status, set), "0000000000000000");
        }
    }
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let hard = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(hard("Max core file size"), "0");
    assert_eq!(hard("Max open files"), "1024");
    assert_eq!(hard("Max file size"), (64u64 << 20).to_string());
    if !is_root() {
        return;
    }
    let own = |of: &str| fs::read_link(format!("/proc/{of}/ns/net")).unwrap();
    let apart = own(&pid.to_string()) != own("self");
    assert_eq!(apart, report.holds(Measure::Namespaces), "{report}");
}

#[test]
fn the_environment_is_empty() {
    let _watchdog = Watchdog::new("the_environment_is_empty");
    let _alone = alone();
    let name = Room::name("environment");
    let scene = Scene::of(&name, &sandbox(&name).env("OWN", "1"));
    let found: BTreeSet<_> = scene.captive.environment().unwrap().into_iter().map(|(key, _)| key).collect();
    let wanted = ["OWN", "UNDERPASS_DIR", "UNDERPASS_SANDBOX"].map(str::to_owned).into();
    assert_eq!(found, wanted);
}

/// The open files of a process, as `/proc` shows them.
fn files_of(pid: u32) -> Vec<String> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let link = |file: fs::DirEntry| fs::read_link(file.path()).unwrap().display().to_string();
    files.map(|file| link(file.unwrap())).collect()
}

/// What an open file of a domain is; nothing if it may be there or not.
fn kind(file: &str, pid: u32) -> Option<&'static str> {
    match file {
        "/dev/null" => Some("standard"),
        // The standard output, for the starter's is one.
        _ if file.starts_with("pipe:") => Some("standard"),
        _ if file.starts_with("socket:") => Some("socket"),
        "anon_inode:[eventpoll]" => Some("epoll"),
        "anon_inode:[eventfd]" => Some("eventfd"),
        // The monitor's looks at its own kernel threads, from before it was locked in.
        _ if file.starts_with(&format!("/proc/{pid}/task/")) => None,
        _ => Some("something else"),
    }
}

/// A starter of a sandboxed domain that has inherited a file from a careless parent.
fn careless_starter(name: &str) -> (Killed, u32) {
    let mut starter = Command::new("sh")
        .args(["-c", "exec 9</etc/passwd; exec \"$0\" starter \"$1\"", SANDBOXED, name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(starter.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    let pid =
        said.trim().parse().unwrap_or_else(|_| panic!("the starter says its domain's process, not {said:?}"));
    (Killed(starter), pid)
}

#[test]
fn no_file_comes_along_and_a_starter_takes_its_domain_along() {
    let _watchdog = Watchdog::new("no_file_comes_along_and_a_starter_takes_its_domain_along");
    let _alone = alone();
    let name = Room::name("descriptors");
    let (starter, pid) = careless_starter(&name);
    assert!(files_of(starter.0.id()).iter().any(|file| file == "/etc/passwd"), "the starter has it");
    let captive = CaptiveClient::import(&name).unwrap();
    assert_eq!(captive.attempt("reserve", 1).as_deref(), Ok("done"));
    // The memory of a new binding is passed on, and closed when that is done. What is left: the standard files; the starter's socket, two names', one
    // binding's; and the clerk's two.
    let wanted =
        ["epoll", "eventfd", "socket", "socket", "socket", "socket", "standard", "standard", "standard"];
    until("the domain has no file but these", || {
        if !is_root() {
            return Some(());
        }
        let mut found: Vec<_> = files_of(pid).iter().filter_map(|file| kind(file, pid)).collect();
        found.sort_unstable();
        (found == wanted).then_some(())
    });

    drop(starter);
    until("the domain's end", || captive.attempt("reserve", 1).is_err().then_some(()));
    until("its process's end", || (!is_alive(pid)).then_some(()));
    // A starter that was killed tidies nothing up.
    for name in [name.clone(), format!("{name}-probe")] {
        fs::remove_file(Room::directory().join(name)).unwrap();
    }
}

/// Whether there is such a process that still runs.
fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
}

/// Children of this process, zombies among them.
fn children() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let of = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    tasks.map(|task| of(task.unwrap()).split_whitespace().count()).sum()
}

/// Kernel threads of this process that look after domains in sandboxes. Other tests' threads come and go beside them.
fn supervisors() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let name = |task: &fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.filter(|task| name(task.as_ref().unwrap()).starts_with("underpass-sandb")).count()
}

fn names_like(name: &str) -> usize {
    let all = fs::read_dir(Room::directory()).unwrap();
    all.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(name)).count()
}

#[test]
fn nothing_is_left_after_two_hundred_starts() {
    let _watchdog = Watchdog::new("nothing_is_left_after_two_hundred_starts");
    let _alone = alone();
    let name = Room::name("again");
    let sandbox = sandbox(&name);
    // The runtime of this process, and the clerk's files, are there after the first.
    drop(Scene::of(&name, &sandbox));
    let own = std::process::id();
    // The supervisor's pipe of the first may be about to be closed, and be among them: one too many hides nothing among 200.
    let before = fds_of(own);
    for round in 0..200 {
        let scene = Scene::of(&name, &sandbox);
        assert!(supervisors() > 0, "its own, at least");
        match round % 4 {
            0 => assert_eq!(scene.ends_of("crash", 0), Ended::Signal(11)),
            1 => assert_eq!(scene.ends_of("fork", 0).forbidden_call(), Some("fork")),
            2 => assert_eq!(scene.domain.end(), Ended::Killed),
            _ => {}
        }
    }
    until(&format!("files as before, {before}, and no supervisor"), || {
        (fds_of(own) <= before && supervisors() == 0).then_some(())
    });
    assert_eq!((children(), names_like(&name)), (0, 0));
}

#[test]
fn who_can_not_begin_is_told_why() {
    let _watchdog = Watchdog::new("who_can_not_begin_is_told_why");
    let _alone = alone();
    let failed = |sandbox: Sandbox| sandbox.silent().start().unwrap_err();
    let missing = failed(Sandbox::program("/nonexistent/program"));
    assert!(matches!(missing, StartError::System(..)), "{missing:?}");
    let short = failed(Sandbox::program("/bin/true"));
    assert!(matches!(short, StartError::Ended(Ended::Exited(0))), "{short:?}");
    let patience = Duration::from_millis(100);
    let endless = failed(Sandbox::program("/bin/sleep").arg("1000").patience(patience));
    assert!(matches!(endless, StartError::Late(time) if time == patience), "{endless:?}");
    let bad = failed(Sandbox::program(SANDBOXED).arg("x".repeat(65)));
    assert!(matches!(&bad, StartError::Failed(why) if why.contains("64 bytes")), "{bad:?}");
    let name = Room::name("twice");
    let _first = sandbox(&name).start().unwrap();
    let taken = failed(Sandbox::program(SANDBOXED).arg(&name));
    assert!(matches!(&taken, StartError::Failed(why) if why.contains("living domain")), "{taken:?}");
    assert_eq!(children(), 1, "what can't begin has ended");
}

#[test]
fn what_is_required_and_can_not_be_had_is_told() {
    let _watchdog = Watchdog::new("what_is_required_and_can_not_be_had_is_told");
    let _alone = alone();
    let name = Room::name("required");
    let found = sandbox(&name).start().unwrap().report().clone();
    for measure in [Measure::Files, Measure::Network, Measure::Namespaces, Measure::Tasks] {
        match sandbox(&name).require(measure).start() {
            Ok(domain) => assert!(domain.report().holds(measure) && found.holds(measure), "{measure}"),
            Err(StartError::NotEnforced(of, why)) => {
                assert_eq!(of, measure);
                assert!(!found.holds(measure) && !why.is_empty(), "{why}");
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(Path::new("/proc/self/ns/net").exists());
}

#[test]
fn a_user_level_thread_may_start_and_wait() {
    let _watchdog = Watchdog::new("a_user_level_thread_may_start_and_wait");
    let _alone = alone();
    let waiter = thread::spawn(|| {
        let scene = Scene::new("user-level");
        let ended = scene.domain.within(Duration::from_secs(3600), || scene.ends_of("exit", 0));
        (ended, scene.domain.ended())
    });
    assert_eq!(waiter.join().unwrap(), (Ended::Exited(7), Some(Ended::Exited(7))));
}
