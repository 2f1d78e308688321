//! Bindings that outlive their servers: which calls are repeated, which are not, and how often each
//! is executed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use underpass::{CallError, Outcome, Policy, thread};
use underpass_tests::{Watchdog, Worker, WorkerClient, Works, stop, until};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

fn resilient(works: &Works) -> WorkerClient {
    let policy = Policy::new().patience(Duration::from_secs(60));
    WorkerClient::import_resilient(works.server.name(), policy).unwrap()
}

#[test]
fn a_call_that_was_not_started_is_made_again() {
    let _watchdog = Watchdog::new("a_call_that_was_not_started_is_made_again");
    let mut works = Works::new(SERVER, "again");
    let client = resilient(&works);
    client.note(0).unwrap();
    stop(works.server.pid());
    let callers: Vec<_> = (1..=20)
        .map(|id| {
            let client = client.clone();
            thread::spawn(move || client.note(id))
        })
        .collect();
    until("the calls to be posted", || (client.counters().calls == 21).then_some(()));
    works.server.kill();
    works.start(SERVER);
    for (caller, id) in callers.into_iter().zip(1..) {
        assert_eq!(caller.join().unwrap(), Ok(id));
    }
    assert_eq!(client.pid(), Ok(works.server.pid()));
    let executed = works.log.executed();
    assert_eq!(executed.len(), 21);
    assert!(executed.values().all(|&times| times == 1), "{executed:?}");
}

#[test]
fn a_call_that_may_have_been_executed_is_made_again_only_if_it_is_idempotent() {
    let _watchdog =
        Watchdog::new("a_call_that_may_have_been_executed_is_made_again_only_if_it_is_idempotent");
    let mut works = Works::new(SERVER, "idempotent");
    let client = resilient(&works);
    let (once, twice) = (client.clone(), client.clone());
    let (once, twice) = (thread::spawn(move || once.stay(1)), thread::spawn(move || twice.stay_once(2)));
    works.until_executed(1);
    works.until_executed(2);
    works.server.kill();
    assert_eq!(once.join().unwrap(), Err(CallError::PeerDied(Outcome::Unknown)));
    works.start(SERVER);
    assert_eq!(twice.join().unwrap(), Ok(()));
    assert_eq!(works.log.executed().into_iter().collect::<Vec<_>>(), [(1, 1), (2, 2)]);
}

#[test]
fn attempts_end_with_the_deadline_or_the_policy() {
    let _watchdog = Watchdog::new("attempts_end_with_the_deadline_or_the_policy");
    let mut works = Works::new(SERVER, "attempts");
    let patient = resilient(&works);
    let once = WorkerClient::import_resilient(works.server.name(), Policy::new().attempts(1)).unwrap();
    let hasty = Policy::new().patience(Duration::from_millis(20));
    let hasty = WorkerClient::import_resilient(works.server.name(), hasty).unwrap();
    works.server.kill();
    for client in [once, hasty] {
        assert_eq!(client.note(1), Err(CallError::PeerDied(Outcome::NotStarted)));
    }
    let late = patient.with_deadline(Duration::from_millis(100));
    assert_eq!(late.note(1), Err(CallError::Deadline(Outcome::NotStarted)));
    works.start(SERVER);
    assert_eq!(patient.note(2), Ok(2), "it was not told the worst for good");
    assert_eq!(works.log.executed().into_keys().collect::<Vec<_>>(), [2]);
}

#[test]
fn a_call_that_was_begun_is_answered_by_the_server_that_was_replaced() {
    let _watchdog = Watchdog::new("a_call_that_was_begun_is_answered_by_the_server_that_was_replaced");
    let mut works = Works::new(SERVER, "begun");
    let client = resilient(&works);
    let late = client.with_deadline(Duration::from_millis(500));
    let begun = thread::spawn(move || late.persist(1));
    works.until_executed(1);
    let mut old = works.upgrade(SERVER);
    // New calls reach the new server while the old one has a call in progress.
    until("the new one to be called", || (client.pid() == Ok(works.server.pid())).then_some(()));
    let told = begun.join().unwrap();
    assert!(matches!(told, Ok(()) | Err(CallError::Deadline(_))), "{told:?}");
    // The old server ends by itself, and leaves the name to the new one.
    old.ended();
    assert_eq!(works.client().pid(), Ok(works.server.pid()));
    assert_eq!(works.log.executed().into_iter().collect::<Vec<_>>(), [(1, 1)]);
}

#[test]
fn no_call_is_lost_over_many_upgrades_under_load() {
    const UPGRADES: usize = 20;
    let _watchdog = Watchdog::new("no_call_is_lost_over_many_upgrades_under_load");
    let mut works = Works::new(SERVER, "upgrades");
    let client = resilient(&works);
    let (ids, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let caller = || {
        let (client, ids, over) = (client.clone(), ids.clone(), over.clone());
        move || {
            let mut called = Vec::new();
            while !over.load(Ordering::SeqCst) {
                let id = ids.fetch_add(1, Ordering::SeqCst);
                assert_eq!(client.note(id), Ok(id));
                called.push(id);
            }
            called
        }
    };
    let user: Vec<_> = (0..8).map(|_| thread::spawn(caller())).collect();
    let kernel: Vec<_> = (0..2).map(|_| std::thread::spawn(caller())).collect();
    for _ in 0..UPGRADES {
        let from = ids.load(Ordering::SeqCst);
        until("calls to be under way", || (ids.load(Ordering::SeqCst) > from + 200).then_some(()));
        works.upgrade(SERVER).ended();
    }
    over.store(true, Ordering::SeqCst);
    let mut called: Vec<_> = user.into_iter().flat_map(|caller| caller.join().unwrap()).collect();
    called.extend(kernel.into_iter().flat_map(|caller| caller.join().unwrap()));
    // Each call was answered, so each is in the log, and none is there twice.
    let executed = works.log.executed();
    assert_eq!(executed.len(), called.len());
    assert!(called.iter().all(|id| executed.get(id) == Some(&1)));
}
