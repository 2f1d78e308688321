//! Exclusive services: one thread at a time runs an implementation that is not `Sync`.

mod back;
mod given_up;
mod local;

use std::process::{Child, Command};
use underpass::{CallError, thread};
use underpass_os::cpu;
use underpass_tests::{Ledger, LedgerClient, Porch, PorchClient, Room, ServerProcess, Watchdog, until};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");
/// The kinds of service: in the first, methods interleave where they wait.
const KINDS: [&str; 2] = ["ledger", "ledger-sequential"];

/// A server of a ledger, and bindings to what it exports.
struct Scene {
    server: ServerProcess,
    ledger: LedgerClient,
    porch: PorchClient,
}

impl Scene {
    fn new(of: &str, kind: &str) -> Self {
        Self::with(of, kind, |_| {})
    }

    fn with(of: &str, kind: &str, change: impl FnOnce(&mut Command)) -> Self {
        let server = ServerProcess::start_with(SERVER, &Room::name(&format!("{of}-{kind}")), kind, change);
        let porch = format!("{}-porch", server.name());
        Self {
            ledger: LedgerClient::import_within(server.name(), ServerProcess::soon()).unwrap(),
            porch: PorchClient::import_within(&porch, ServerProcess::soon()).unwrap(),
            server,
        }
    }

    fn until_logged(&self, id: u64) {
        until("a call to be executed", || self.porch.log().unwrap().contains(&id).then_some(()));
    }

    /// Starts a process that calls a method.
    fn caller(&self, arguments: &[&str]) -> Child {
        Command::new(SERVER).arg(self.server.name()).args(arguments).spawn().unwrap()
    }

    /// The sum, once it is known that no two methods ran at once.
    fn sum(&self) -> u64 {
        let (sum, intrusions) = self.ledger.seen().unwrap();
        assert_eq!(intrusions, 0, "a method ran while another one did");
        sum
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // The server ends with the scene, by a kill: it can't remove its other name.
        let _ = std::fs::remove_file(Room::directory().join(format!("{}-porch", self.server.name())));
    }
}

/// Sixteen callers in two processes. `donated`: the server has no processors of its own.
fn nothing_is_lost(of: &str, kind: &str, donated: bool, on_one_cpu: bool) {
    const CALLS: u64 = 200;
    let first = cpu::allowed().unwrap()[0].to_string();
    let placed = |command: &mut Command| {
        if on_one_cpu {
            command.env("UNDERPASS_TEST_CPU", &first);
        }
    };
    let scene = Scene::with(of, kind, |command| {
        placed(command);
        if donated {
            command.env("UNDERPASS_PROCESSORS", "0");
        }
    });
    let callers: Vec<_> = (0..2)
        .map(|_| {
            let mut command = Command::new(SERVER);
            placed(command.args([scene.server.name(), "add", "8", &CALLS.to_string()]));
            command.spawn().unwrap()
        })
        .collect();
    for mut caller in callers {
        assert!(caller.wait().unwrap().success(), "all calls succeed");
    }
    assert_eq!(scene.sum(), 16 * CALLS);
}

#[test]
fn sixteen_callers_lose_nothing() {
    let _watchdog = Watchdog::new("sixteen_callers_lose_nothing");
    KINDS.iter().for_each(|kind| nothing_is_lost("sixteen", kind, false, false));
}

#[test]
fn sixteen_callers_on_one_cpu_lose_nothing() {
    let _watchdog = Watchdog::new("sixteen_callers_on_one_cpu_lose_nothing");
    KINDS.iter().for_each(|kind| nothing_is_lost("one-cpu", kind, false, true));
}

#[test]
fn sixteen_callers_that_donate_lose_nothing() {
    let _watchdog = Watchdog::new("sixteen_callers_that_donate_lose_nothing");
    KINDS.iter().for_each(|kind| nothing_is_lost("donated", kind, true, false));
}

#[test]
fn sixteen_callers_that_donate_on_one_cpu_lose_nothing() {
    let _watchdog = Watchdog::new("sixteen_callers_that_donate_on_one_cpu_lose_nothing");
    KINDS.iter().for_each(|kind| nothing_is_lost("donated-one-cpu", kind, true, true));
}

#[test]
fn a_borrow_across_a_wait_panics_only_where_methods_interleave() {
    let _watchdog = Watchdog::new("a_borrow_across_a_wait_panics_only_where_methods_interleave");
    for kind in KINDS {
        let scene = Scene::new("across", kind);
        let callers: Vec<_> = (0..16)
            .map(|_| {
                let ledger = scene.ledger.clone();
                thread::spawn(move || {
                    (0..50)
                        .filter(|_| match ledger.add_across(1) {
                            Ok(_) => true,
                            Err(CallError::Panicked(why)) if why.contains("borrowed") => false,
                            Err(other) => panic!("{other}"),
                        })
                        .count() as u64
                })
            })
            .collect();
        let added: u64 = callers.into_iter().map(|caller| caller.join().unwrap()).sum();
        assert_eq!(scene.sum(), added, "what succeeded is not lost");
        if kind == KINDS[1] {
            assert_eq!(added, 16 * 50, "a sequential service lends nothing twice");
        }
    }
}

#[test]
fn others_run_where_a_method_waits() {
    let _watchdog = Watchdog::new("others_run_where_a_method_waits");
    let scene = Scene::new("meets", KINDS[0]);
    let callers: Vec<_> = (0..16)
        .map(|_| {
            let ledger = scene.ledger.clone();
            thread::spawn(move || ledger.meet(16))
        })
        .collect();
    assert!(callers.into_iter().all(|caller| caller.join().unwrap() == Ok(())));
    assert_eq!(scene.sum(), 0);
}

#[test]
fn blocking_calls_and_ends_of_slices_keep_the_token() {
    let _watchdog = Watchdog::new("blocking_calls_and_ends_of_slices_keep_the_token");
    for kind in KINDS {
        let scene = Scene::new("keeps", kind);
        let (keeper, adder) = (scene.ledger.clone(), scene.ledger.clone());
        let keeper = thread::spawn(move || keeper.keep(1));
        scene.until_logged(1);
        let adders: Vec<_> = (0..4)
            .map(|_| {
                let adder = adder.clone();
                thread::spawn(move || (0..50).try_for_each(|_| adder.add(1).map(drop)))
            })
            .collect();
        until("the adders to call", || (adder.counters().calls >= 5).then_some(()));
        scene.porch.open().unwrap();
        assert_eq!(keeper.join().unwrap(), Ok(()));
        assert!(adders.into_iter().all(|adder| adder.join().unwrap() == Ok(())));
        assert_eq!(scene.sum(), 200, "{kind}");
    }
}

#[test]
fn a_panic_gives_the_token_back() {
    let _watchdog = Watchdog::new("a_panic_gives_the_token_back");
    for kind in KINDS {
        let scene = Scene::new("panics", kind);
        for n in 1..=20 {
            assert!(matches!(scene.ledger.panic(), Err(CallError::Panicked(_))));
            assert_eq!(scene.ledger.add_across(1), Ok(n), "the guard of the borrow was dropped");
        }
    }
}
