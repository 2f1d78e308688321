//! Bindings that outlive their servers: what is called again, what isn't, and how often each call is executed.

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
    let late = patient.with_deadline(Duration::from_millis(100));
    for client in [late, once, hasty] {
        assert_eq!(client.note(1), Err(CallError::PeerDied(Outcome::NotStarted)));
    }
    works.start(SERVER);
    assert_eq!(patient.note(2), Ok(2), "it was not told the worst for good");
    assert_eq!(works.log.executed().into_keys().collect::<Vec<_>>(), [2]);
}
