//! Domains in a sandbox: what they can do, what they can't, and what their end costs.

mod calls;
mod starter;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::Duration;
use underpass::sandbox::{Domain, Ended, Measure, StartError};
use underpass::{CallError, Outcome, Sandbox, thread};
use underpass_harness::{alone, skip};
use underpass_tests::{
    Adds, Captive, CaptiveClient, PingPong, PingPongClient, Player, Probe, ProbeClient, Room, ServerProcess,
    SinkClient, Transaction, Vault, VaultClient, Watchdog, crowd, fds_of, until,
};

const SANDBOXED: &str = env!("CARGO_BIN_EXE_underpass-test-sandboxed");
const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

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
        // A kernel may lack a measure, but each measure that it has must be in place in time.
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

    /// The domain ends by `deed`. Returns how it ended.
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

/// Only root can look at the state of a domain that has closed itself off.
fn is_root() -> bool {
    underpass_os::process::user() == 0
}

#[test]
fn an_honest_domain_serves_as_any_other() {
    alone!();
    let _watchdog = Watchdog::new("an_honest_domain_serves_as_any_other");
    let outside = ServerProcess::start(SERVER, &Room::name("honest-outside"), "probe");
    let name = Room::name("honest");
    let scene = Scene::of(&name, &sandbox(&name).arg(outside.name()).env("RUST_BACKTRACE", "1"));
    let probe = scene.probe();
    assert_eq!(probe.add(1, 2), Ok(3));
    // Over the A-stack, and through memory files, in both directions.
    for len in [40, 20_000, 3 << 20] {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        assert_eq!(probe.echo(&bytes), Ok(bytes));
    }
    // Concurrent callers, from both kinds of threads. Some of them wait for one another there.
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
fn interfaces_pass_the_walls_in_both_directions() {
    alone!();
    let _watchdog = Watchdog::new("interfaces_pass_the_walls_in_both_directions");
    let scene = Scene::new("values");
    let vault = VaultClient::import(&format!("{}-vault", scene.name)).unwrap();
    let transaction = vault.begin().unwrap();
    assert_eq!((transaction.put(1, 10), transaction.commit()), (Ok(()), Ok(())));
    assert_eq!(vault.watch(SinkClient::new(Adds { by: 5, ..Adds::default() })), Ok(1));
    assert_eq!((vault.publish(1), vault.get(1)), (Ok(6), Ok(Some(10))));
    let player = vault.player().unwrap();
    assert_eq!(player.play(PingPongClient::new(Player), 10), Ok(11));
    drop((transaction, player));
    until("it to be dropped", || (vault.transactions() == Ok((0, 1))).then_some(()));
    assert_eq!(scene.domain.ended(), None);
}

#[test]
fn callers_that_contend_get_channels_of_their_own() {
    alone!();
    let _watchdog = Watchdog::new("callers_that_contend_get_channels_of_their_own");
    let scene = Scene::new("channels");
    let bytes = vec![7; 100_000];
    let echoed = crowd(&scene.probe(), move |probe, _, _| probe.echo(&bytes) == Ok(bytes.clone()));
    assert!(echoed.is_none_or(|both| both == [true, true]));
    assert_eq!(scene.domain.ended(), None);
}

#[test]
fn memory_beyond_the_limit_costs_the_domain_alone() {
    alone!();
    let _watchdog = Watchdog::new("memory_beyond_the_limit_costs_the_domain_alone");
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
    alone!();
    let _watchdog = Watchdog::new("a_loop_is_ended_by_its_deadline_or_its_processor_time");
    let name = Room::name("loop");
    let sandbox = sandbox(&name).processor_time(Duration::from_millis(300));
    let scene = Scene::of(&name, &sandbox);
    assert_eq!(scene.ends_of("spin", 0), Ended::ProcessorTime);
    drop(scene);

    let unbounded = Sandbox::program(SANDBOXED).arg(&name).silent().patience(Duration::from_secs(60));
    let scene = Scene::of(&name, &unbounded);
    let (hour, moment) = (Duration::from_secs(3600), Duration::from_millis(50));
    // Deadlines that are met cost nothing, in whatever order they come and go.
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
    alone!();
    let _watchdog = Watchdog::new("a_crash_and_an_exit_are_told_apart");
    assert_eq!(Scene::new("crash").ends_of("crash", 0), Ended::Signal(11));
    assert_eq!(Scene::new("exit").ends_of("exit", 0), Ended::Exited(7));
}

/// The fields of `status` of each kernel thread of a process that does not end meanwhile.
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
fn every_kernel_thread_is_restricted() {
    alone!();
    let _watchdog = Watchdog::new("every_kernel_thread_is_restricted");
    let scene = Scene::new("walls");
    // Some threads are started afterwards.
    scene.captive.threads(4).unwrap();
    let (report, pid) = (scene.domain.report(), scene.domain.pid());
    for measure in [Measure::Calls, Measure::Limits, Measure::Capabilities, Measure::Privacy] {
        assert!(report.holds(measure), "{report}");
    }
    for measure in [Measure::Files, Measure::Network] {
        // Except on kernels that lack them.
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
    assert_eq!(hard("Max open files"), "256");
    assert_eq!(hard("Max file size"), (64u64 << 20).to_string());
    if !is_root() {
        skip!("only root can look at the namespaces of a sandboxed domain");
    }
    let own = |of: &str| fs::read_link(format!("/proc/{of}/ns/net")).unwrap();
    let apart = own(&pid.to_string()) != own("self");
    assert_eq!(apart, report.holds(Measure::Namespaces), "{report}");
}

#[test]
fn the_environment_is_empty() {
    alone!();
    let _watchdog = Watchdog::new("the_environment_is_empty");
    let name = Room::name("environment");
    let scene = Scene::of(&name, &sandbox(&name).env("OWN", "1"));
    let found: BTreeSet<_> = scene.captive.environment().unwrap().into_iter().map(|(key, _)| key).collect();
    let wanted = ["OWN", "UNDERPASS_DIR", "UNDERPASS_SANDBOX"].map(str::to_owned).into();
    assert_eq!(found, wanted);
}

/// The children of this process, zombies included.
fn children() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let of = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    tasks.map(|task| of(task.unwrap()).split_whitespace().count()).sum()
}

/// Kernel threads of this process that supervise domains in sandboxes. Other tests' threads come
/// and go beside them.
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
    alone!();
    let _watchdog = Watchdog::new("nothing_is_left_after_two_hundred_starts");
    let name = Room::name("again");
    let sandbox = sandbox(&name);
    // After the first domain, the runtime of this process and the clerk's files exist.
    drop(Scene::of(&name, &sandbox));
    let own = std::process::id();
    // The pipe of the first supervisor may be about to be closed, and may be among them. One too
    // many hides nothing among 200.
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
fn a_failed_start_reports_its_reason() {
    alone!();
    let _watchdog = Watchdog::new("a_failed_start_reports_its_reason");
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
fn a_required_measure_that_is_missing_is_reported() {
    alone!();
    let _watchdog = Watchdog::new("a_required_measure_that_is_missing_is_reported");
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
    alone!();
    let _watchdog = Watchdog::new("a_user_level_thread_may_start_and_wait");
    let waiter = thread::spawn(|| {
        let scene = Scene::new("user-level");
        let ended = scene.domain.within(Duration::from_secs(3600), || scene.ends_of("exit", 0));
        (ended, scene.domain.ended())
    });
    assert_eq!(waiter.join().unwrap(), (Ended::Exited(7), Some(Ended::Exited(7))));
}
