//! How long calls wait for the next server, and what ends the wait.

use crate::restarts::SERVER;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use underpass::{Abandon, CallError, ImportError, Outcome, Policy, thread};
use underpass_tests::{Room, ServerProcess, Watchdog, Worker, WorkerClient, Works, cont, stop, until};

const SOON: Duration = Duration::from_millis(300);

fn resilient(works: &Works, patience: Duration) -> WorkerClient {
    let client =
        WorkerClient::import_resilient(works.server.name(), Policy::new().patience(patience)).unwrap();
    client.note(0).unwrap();
    client
}

/// A server, and a client of its killed predecessor. The server is stopped, so it accepts
/// connections but does not answer.
fn succeeded_by_a_stopped_one(name: &str) -> (Works, WorkerClient) {
    let mut works = Works::new(SERVER, name);
    let client = resilient(&works, Duration::from_secs(60));
    works.server.kill();
    works.start(SERVER);
    stop(works.server.pid());
    (works, client)
}

#[test]
fn an_import_waits_for_the_answer_of_a_stopped_server_for_as_long_as_it_may() {
    let _watchdog = Watchdog::new("an_import_waits_for_as_long_as_it_may");
    let server = ServerProcess::start(SERVER, &Room::name("import-stopped"), "worker");
    stop(server.pid());
    for by_kernel in [true, false] {
        let name = server.name().to_owned();
        let import = move || WorkerClient::import_within(&name, SOON).map(drop);
        let told = match by_kernel {
            true => std::thread::spawn(import).join().unwrap(),
            false => thread::spawn(import).join().unwrap(),
        };
        assert!(matches!(told, Err(ImportError::NoAnswer(_, SOON))), "{told:?}");
    }
}

#[test]
fn an_import_ends_when_its_thread_is_cancelled_unless_it_is_detached() {
    let _watchdog = Watchdog::new("an_import_ends_when_its_thread_is_cancelled");
    let nobodys = Room::name("nobodys");
    let import = move || WorkerClient::import_within(&nobodys, Duration::from_secs(3600)).map(drop);
    let waits = thread::spawn(import.clone());
    waits.cancel();
    let in_kernel = std::thread::spawn(move || {
        thread::current().cancel();
        import()
    });
    for told in [waits.join().unwrap(), in_kernel.join().unwrap()] {
        assert!(matches!(told, Err(ImportError::Cancelled)), "{told:?}");
    }
    let server = ServerProcess::start(SERVER, &Room::name("import-detached"), "worker");
    let (name, pid) = (server.name().to_owned(), server.pid());
    let detached = thread::spawn(move || {
        thread::current().cancel();
        underpass::detached(|| {
            WorkerClient::import_within(&name, ServerProcess::soon()).map(|client| client.pid())
        })
    });
    assert_eq!(detached.join().unwrap().unwrap(), Ok(pid));
}

#[test]
fn a_deadline_ends_the_wait_for_the_answer_of_the_next_server() {
    let _watchdog = Watchdog::new("a_deadline_ends_the_wait_for_the_next_server");
    let (works, client) = succeeded_by_a_stopped_one("deadline-stopped");
    let hasty = client.with_deadline(SOON);
    // The attempt goes on for a caller that waits without a deadline.
    let patient = thread::spawn(move || client.note(1));
    let other = hasty.clone();
    let in_kernel = std::thread::spawn(move || other.note(2));
    let here = thread::spawn(move || hasty.note(3));
    for told in [in_kernel.join().unwrap(), here.join().unwrap()] {
        assert_eq!(told, Err(CallError::Deadline(Outcome::NotStarted)));
    }
    assert!(!patient.is_finished());
    cont(works.server.pid());
    assert_eq!(patient.join().unwrap(), Ok(1));
    assert_eq!(works.log.executed().into_keys().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn an_abandoned_or_cancelled_call_stops_waiting_for_the_next_server() {
    let _watchdog = Watchdog::new("an_abandoned_or_cancelled_call_stops_waiting_for_the_next_server");
    let mut works = Works::new(SERVER, "freed-between");
    let (client, abandon) = (resilient(&works, Duration::from_secs(60)), Abandon::new());
    stop(works.server.pid());
    let call = |id, client: WorkerClient| move || client.note(id);
    let free = client.abandonable(&abandon);
    let abandoned = (thread::spawn(call(1, free.clone())), std::thread::spawn(call(2, free)));
    let cancelled = thread::spawn(call(3, client.clone()));
    let patient = thread::spawn(call(4, client.clone()));
    until("the calls to be posted", || (client.counters().calls == 5).then_some(()));
    works.server.kill();
    // When this returns, the others wait for the next server, too.
    let late = client.with_deadline(SOON).note(5);
    assert_eq!(late, Err(CallError::Deadline(Outcome::NotStarted)));
    abandon.abandon();
    cancelled.cancel();
    for told in [abandoned.0.join().unwrap(), abandoned.1.join().unwrap()] {
        assert_eq!(told, Err(CallError::Abandoned(Outcome::NotStarted)));
    }
    assert_eq!(cancelled.join().unwrap(), Err(CallError::Cancelled(Outcome::NotStarted)));
    assert!(!patient.is_finished());
    works.start(SERVER);
    assert_eq!(patient.join().unwrap(), Ok(4));
    assert_eq!(works.log.executed().into_keys().collect::<Vec<_>>(), [0, 4]);
}

#[test]
fn callers_that_wait_together_time_out_together() {
    let _watchdog = Watchdog::new("callers_that_wait_together_time_out_together");
    const PATIENCE: Duration = Duration::from_secs(1);
    let mut works = Works::new(SERVER, "together");
    let client = resilient(&works, PATIENCE);
    // It has a binding of its own. Its calls, one after the other, count how many waiting times
    // have passed.
    let clock = resilient(&works, PATIENCE);
    works.server.kill();
    let ended = AtomicU32::new(0);
    let patiences = thread::scope(|s| {
        for id in 0..10 {
            let (client, ended) = (client.clone(), &ended);
            s.spawn(move || {
                assert_eq!(client.note(id), Err(CallError::PeerDied(Outcome::NotStarted)));
                ended.fetch_add(1, Ordering::SeqCst);
            });
        }
        let mut patiences = 0;
        while ended.load(Ordering::SeqCst) < 10 {
            clock.note(0).unwrap_err();
            patiences += 1;
        }
        patiences
    });
    assert!(patiences <= 4, "one after the other: {patiences}");
}

#[test]
fn tasks_wait_for_the_next_server_no_longer_than_they_are_to() {
    let _watchdog = Watchdog::new("tasks_wait_for_the_next_server_no_longer_than_they_are_to");
    let (works, client) = succeeded_by_a_stopped_one("tasks-between");
    let abandon = Abandon::new();
    let (hasty, free) = (client.with_deadline(SOON), client.abandonable(&abandon));
    smol::block_on(async {
        let free = smol::spawn(async move { free.note_async(1).await });
        let other = client.clone();
        let dropped = smol::spawn(async move { other.note_async(2).await });
        let other = client.clone();
        let patient = smol::spawn(async move { other.note_async(3).await });
        // When this returns, the others wait for the next server, too.
        assert_eq!(hasty.note_async(4).await, Err(CallError::Deadline(Outcome::NotStarted)));
        abandon.abandon();
        assert_eq!(free.await, Err(CallError::Abandoned(Outcome::NotStarted)));
        dropped.cancel().await;
        assert!(!patient.is_finished());
        cont(works.server.pid());
        assert_eq!(patient.await, Ok(3));
    });
    assert_eq!(works.log.executed().into_keys().collect::<Vec<_>>(), [0, 3]);
}
