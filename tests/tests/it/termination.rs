//! Calls that end before their reply: deadlines, and domains that die with calls in progress. Each
//! caller is told what became of its call, and the answer is true.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use underpass::{CallError, Outcome, thread};
use underpass_tests::{Files, Log, Watchdog, Worker, WorkerClient, Works as Scene, cont, stop, until};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");
/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);
/// A time that passes at once.
const SHORT: Duration = Duration::from_millis(1);

#[test]
fn a_handler_sees_the_deadline_of_its_caller() {
    let _watchdog = Watchdog::new("a_handler_sees_the_deadline_of_its_caller");
    let scene = Scene::new(SERVER, "deadline");
    let client = scene.client();
    assert_eq!(client.left(&[]), Ok(None));
    let left = client.with_deadline(LONG).left(&[]).unwrap().unwrap();
    assert!((1..=LONG.as_millis() as u64).contains(&left), "{left} ms");
    // A slot that had a call with a deadline then has one without.
    assert_eq!(client.left(&[]), Ok(None));
}

#[test]
fn a_deadline_is_inherited_along_a_chain() {
    let _watchdog = Watchdog::new("a_deadline_is_inherited_along_a_chain");
    let [a, b, c] = ["a", "b", "c"].map(|name| Scene::new(SERVER, &format!("inherit-{name}")));
    let names = [b.server.name().to_owned(), c.server.name().to_owned()];
    let client = a.client();
    assert_eq!(client.left(&names), Ok(None));
    let left = client.with_deadline(LONG).left(&names).unwrap().unwrap();
    assert!((1..=LONG.as_millis() as u64).contains(&left), "{left} ms");
    assert_eq!(client.with_deadline(LONG).left_apart(&names), Ok(None));
    assert_eq!(client.left(&names), Ok(None));
}

#[test]
fn a_handler_sees_that_its_caller_waits_no_more() {
    let _watchdog = Watchdog::new("a_handler_sees_that_its_caller_waits_no_more");
    let scene = Scene::new(SERVER, "late");
    let client = scene.client();
    let late = client.with_deadline(Duration::from_millis(200));
    for call in [WorkerClient::persist, WorkerClient::persist_elsewhere] {
        let told = call(&late, 1);
        // The handler may see first that the deadline has passed.
        assert!(matches!(told, Ok(()) | Err(CallError::Deadline(_))), "{told:?}");
    }
    // On a busy machine some calls may not have been started. Then the caller knows it.
    let started = scene.log.executed().get(&1).copied().unwrap_or(0);
    until("the handlers to see it", || (client.ended() == Ok(started.into())).then_some(()));
}

#[test]
fn a_handler_sees_that_its_caller_has_died() {
    let _watchdog = Watchdog::new("a_handler_sees_that_its_caller_has_died");
    let scene = Scene::new(SERVER, "orphan");
    let client = scene.client();
    client.note(9).unwrap();
    let files = Files::of(scene.server.pid());
    let mut doomed = Command::new(SERVER).args([scene.server.name(), "persist"]).spawn().unwrap();
    scene.until_executed(0);
    doomed.kill().unwrap();
    doomed.wait().unwrap();
    until("the handler to see it", || (client.ended() == Ok(1)).then_some(()));
    files.until_no_others();
}

#[test]
fn a_call_that_is_not_wanted_any_more_is_not_started() {
    let _watchdog = Watchdog::new("a_call_that_is_not_wanted_any_more_is_not_started");
    let scene = Scene::new(SERVER, "unwanted");
    let client = scene.client();
    client.note(0).unwrap();
    stop(scene.server.pid());
    client.quarantine(64);
    let hasty = client.with_deadline(SHORT);
    // As many as there are slots: no slot is lost.
    for id in 1..=64 {
        assert_eq!(hasty.note(id), Err(CallError::Deadline(Outcome::NotStarted)));
    }
    assert_eq!(hasty.note(65), Err(CallError::Overloaded));
    cont(scene.server.pid());
    let threads: Vec<_> = (100..164)
        .map(|id| {
            let client = client.clone();
            thread::spawn(move || client.note(id))
        })
        .collect();
    assert!(threads.into_iter().all(|thread| thread.join().unwrap().is_ok()));
    let executed: Vec<_> = scene.log.executed().into_keys().collect();
    assert_eq!(executed, [0].into_iter().chain(100..164).collect::<Vec<_>>());
}

#[test]
fn a_call_that_a_dead_server_never_took_was_not_started() {
    let _watchdog = Watchdog::new("a_call_that_a_dead_server_never_took_was_not_started");
    let mut scene = Scene::new(SERVER, "untaken");
    let client = scene.client();
    let (kernel, user) = (client.clone(), client.clone());
    let taken = [std::thread::spawn(move || kernel.stay(1)), std::thread::spawn(move || user.stay(2))];
    scene.until_executed(1);
    scene.until_executed(2);
    stop(scene.server.pid());
    let untaken: Vec<_> = (10..30)
        .map(|id| {
            let client = client.clone();
            thread::spawn(move || client.note(id))
        })
        .collect();
    until("all calls to be posted", || (client.counters().calls == 22).then_some(()));
    scene.server.kill();
    for call in taken {
        assert_eq!(call.join().unwrap(), Err(CallError::PeerDied(Outcome::Unknown)));
    }
    for call in untaken {
        assert_eq!(call.join().unwrap(), Err(CallError::PeerDied(Outcome::NotStarted)));
    }
    assert_eq!(scene.log.executed().into_keys().collect::<Vec<_>>(), [1, 2]);
}

/// Calls from a thread of each kind until one call fails. Returns each call's number and its
/// result.
fn callers(client: &WorkerClient, ids: &Arc<AtomicU64>) -> Vec<Box<dyn FnOnce() -> Vec<Told>>> {
    let caller = || {
        let (client, ids) = (client.clone(), ids.clone());
        move || {
            let mut told = Vec::new();
            while told.last().is_none_or(|(_, result): &Told| result.is_ok()) {
                let id = ids.fetch_add(1, Ordering::SeqCst);
                told.push((id, client.note(id)));
            }
            told
        }
    };
    let user = (0..8).map(|_| thread::spawn(caller())).map(|call| Box::new(|| call.join().unwrap()) as _);
    let kernel =
        (0..2).map(|_| std::thread::spawn(caller())).map(|call| Box::new(|| call.join().unwrap()) as _);
    user.chain(kernel).collect()
}

type Told = (u64, Result<u64, CallError>);

fn is_true(log: &Log, told: Vec<Told>) {
    let executed = log.executed();
    for (id, result) in told {
        let times = executed.get(&id).copied().unwrap_or(0);
        match result.as_ref().map_err(CallError::outcome) {
            Ok(_) | Err(Outcome::Executed) => assert_eq!(times, 1, "{id}: {result:?}"),
            Err(Outcome::NotStarted) => assert_eq!(times, 0, "{id}: {result:?}"),
            Err(Outcome::Unknown) => assert!(times <= 1, "{id}: {result:?}"),
        }
    }
}

#[test]
fn callers_of_a_server_that_dies_under_load_are_told_the_truth() {
    let _watchdog = Watchdog::new("callers_of_a_server_that_dies_under_load_are_told_the_truth");
    let mut scene = Scene::new(SERVER, "truth");
    let ids = Arc::new(AtomicU64::new(0));
    for _ in 0..5 {
        let (client, from) = (scene.client(), ids.load(Ordering::SeqCst));
        let callers = callers(&client, &ids);
        until("calls to be under way", || (ids.load(Ordering::SeqCst) > from + 300).then_some(()));
        scene.server.kill();
        let told = callers.into_iter().flat_map(|call| call()).collect();
        is_true(&scene.log, told);
        scene.start(SERVER);
    }
}

#[test]
fn callers_of_an_export_that_ends_under_load_are_told_the_truth() {
    let _watchdog = Watchdog::new("callers_of_an_export_that_ends_under_load_are_told_the_truth");
    let mut scene = Scene::new(SERVER, "orderly");
    let ids = Arc::new(AtomicU64::new(0));
    let client = scene.client();
    let exporter = WorkerClient::import(scene.server.name()).unwrap();
    for round in 0..5 {
        let name = format!("{}-{round}", scene.server.name());
        exporter.export(&name).unwrap();
        let (other, from) = (WorkerClient::import(&name).unwrap(), ids.load(Ordering::SeqCst));
        let callers = callers(&other, &ids);
        until("calls to be under way", || (ids.load(Ordering::SeqCst) > from + 300).then_some(()));
        exporter.withdraw(&name).unwrap();
        let told: Vec<_> = callers.into_iter().flat_map(|call| call()).collect();
        let why = |result: &Result<u64, CallError>| matches!(result, Ok(_) | Err(CallError::Closed(_)));
        assert!(told.iter().all(|(_, result)| why(result)), "{told:?}");
        // Calls in progress there come to their end.
        client.settle().unwrap();
        is_true(&scene.log, told);
    }
    scene.server.kill();
}

#[test]
fn a_chain_is_told_when_its_last_server_dies() {
    let _watchdog = Watchdog::new("a_chain_is_told_when_its_last_server_dies");
    let (b, mut c) = (Scene::new(SERVER, "last-b"), Scene::new(SERVER, "last-c"));
    let (client, name) = (b.client(), c.server.name().to_owned());
    let caller = {
        let client = client.clone();
        thread::spawn(move || client.have_stay(&name, 7))
    };
    c.until_executed(7);
    c.server.kill();
    // The handler got this error and returned it as its result. Its domain goes on.
    let told = CallError::PeerDied(Outcome::Unknown);
    assert_eq!(caller.join().unwrap(), Err(told.clone()));
    assert_eq!(client.told(), Ok(vec![Some(told)]));
}

#[test]
fn a_chain_is_told_when_its_middle_server_dies() {
    let _watchdog = Watchdog::new("a_chain_is_told_when_its_middle_server_dies");
    let (mut b, c) = (Scene::new(SERVER, "middle-b"), Scene::new(SERVER, "middle-c"));
    let last = c.client();
    last.note(0).unwrap();
    let files = Files::of(c.server.pid());
    let caller = {
        let (client, name) = (b.client().with_deadline(LONG), c.server.name().to_owned());
        thread::spawn(move || client.have_persist(&name, 7))
    };
    c.until_executed(7);
    b.server.kill();
    assert_eq!(caller.join().unwrap(), Err(CallError::PeerDied(Outcome::Unknown)));
    // Nobody wants its call of the last server any more, and nothing of the call is left.
    until("the handler to see it", || (last.ended() == Ok(1)).then_some(()));
    files.until_no_others();
}

#[test]
fn a_chain_ends_when_its_first_caller_gives_up() {
    let _watchdog = Watchdog::new("a_chain_ends_when_its_first_caller_gives_up");
    let (b, c) = (Scene::new(SERVER, "first-b"), Scene::new(SERVER, "first-c"));
    let client = b.client();
    let told = client.with_deadline(Duration::from_millis(300)).have_persist(c.server.name(), 7);
    assert!(matches!(told, Ok(()) | Err(CallError::Deadline(_))), "{told:?}");
    // The deadline by itself has freed the whole chain.
    let started = c.log.executed().contains_key(&7);
    until("the last to see it", || (c.client().ended() == Ok(started.into())).then_some(()));
    assert_eq!(
        client.with_deadline(LONG).left(&[c.server.name().to_owned()]).map(|left| left.is_some()),
        Ok(true)
    );
}
