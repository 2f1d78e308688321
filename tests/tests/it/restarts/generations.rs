//! An id that one server gave out reaches no object of the next server.

use crate::restarts::SERVER;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use underpass::{CallError, Outcome, Policy, thread};
use underpass_tests::{DbId, Room, ServerProcess, Store, StoreClient, Watchdog, stop, until};

fn patient() -> Policy {
    Policy::new().patience(Duration::from_secs(60))
}

/// Starts a server that declares its state to be `state`, unless that is empty.
fn start(name: &str, interface: &str, state: &str) -> ServerProcess {
    ServerProcess::start_with(SERVER, name, interface, |command| {
        command.args(Some(state).filter(|state| !state.is_empty()));
    })
}

/// A server whose first object was opened for `first`, and that client.
fn opened(of: &str) -> (String, ServerProcess, StoreClient) {
    let name = Room::name(of);
    let server = start(&name, "store", "");
    let first = StoreClient::import_resilient(&name, patient()).unwrap();
    assert_eq!(first.open("first"), Ok(DbId(1)));
    (name, server, first)
}

/// Another client opens an object, which gets the same id. The returned function checks that
/// nothing else is known of the object.
fn reopened(name: &str) -> impl Fn() {
    let second = StoreClient::import_within(name, ServerProcess::soon()).unwrap();
    assert_eq!(second.open("second"), Ok(DbId(1)));
    move || assert_eq!(second.read(DbId(1)), Ok(("second".to_owned(), String::new())))
}

fn restarted<T: std::fmt::Debug>(told: &Result<T, CallError>, outcome: Outcome) {
    assert!(matches!(told, Err(CallError::Restarted(so, _)) if *so == outcome), "{told:?}");
}

#[test]
fn a_write_does_not_reach_the_object_to_which_a_restarted_server_gave_its_id() {
    let _watchdog = Watchdog::new("a_write_does_not_reach_the_object_of_another_client");
    let (name, mut server, first) = opened("wrong-object");
    server.kill();
    let _server = start(&name, "store", "");
    let is_untouched = reopened(&name);
    for told in [first.write(DbId(1), "of the first"), first.set(DbId(1), "of the first")] {
        restarted(&told, Outcome::NotStarted);
        is_untouched();
    }
    // Each clone is told separately that its objects are gone.
    let other = first.clone();
    first.acknowledge_restart();
    let third = first.open("first").unwrap();
    assert_eq!(first.clone().write(third, "of the first"), Ok(()));
    restarted(&other.write(DbId(1), "of the first"), Outcome::NotStarted);
    restarted(&other.with_deadline(Duration::from_secs(60)).read(third), Outcome::NotStarted);
    other.acknowledge_restart();
    assert_eq!(other.read(third), Ok(("first".to_owned(), "of the first".to_owned())));
    is_untouched();
}

#[test]
fn calls_under_way_do_not_cross_a_restart() {
    let _watchdog = Watchdog::new("calls_under_way_do_not_cross_a_restart");
    let (name, mut server, first) = opened("under-way");
    let second = first.open("second").unwrap();
    let caller = first.clone();
    let stays = thread::spawn(move || caller.set_and_stay(second, "of the first"));
    until("the call to be executed", || {
        first.read(second).is_ok_and(|(_, text)| !text.is_empty()).then_some(())
    });
    stop(server.pid());
    let calls = first.counters().calls;
    let (writer, setter) = (first.clone(), first.clone());
    let writer = thread::spawn(move || writer.write(DbId(1), "of the first"));
    let setter = std::thread::spawn(move || setter.set(DbId(1), "of the first"));
    until("the calls to be posted", || (first.counters().calls == calls + 2).then_some(()));
    server.kill();
    let _server = start(&name, "store", "");
    let is_untouched = reopened(&name);
    // Both methods with `set` in their names are idempotent.
    restarted(&stays.join().unwrap(), Outcome::Unknown);
    restarted(&writer.join().unwrap(), Outcome::NotStarted);
    restarted(&setter.join().unwrap(), Outcome::NotStarted);
    is_untouched();
}

#[test]
fn a_replacement_is_a_restart_and_so_is_an_expired_binding() {
    let _watchdog = Watchdog::new("a_replacement_is_a_restart_and_so_is_an_expired_binding");
    let (name, mut server, first) = opened("replaced");
    let _next = start(&name, "store-replace", "");
    server.leave_the_name();
    server.ended();
    let is_untouched = reopened(&name);
    restarted(&first.write(DbId(1), "of the first"), Outcome::NotStarted);
    is_untouched();

    let name = Room::name("expiring");
    let _server = start(&name, "store-expiring", "");
    let first = StoreClient::import_resilient(&name, patient()).unwrap();
    let told = until("the binding to expire", || first.calls().err());
    assert!(matches!(told, CallError::Restarted(..) | CallError::Revoked(Outcome::Unknown)), "{told:?}");
    // If the server says that its state goes on, no client is told of a restart.
    let name = Room::name("expiring-known");
    let _server = start(&name, "store-expiring", "7");
    let first = StoreClient::import_resilient(&name, patient()).unwrap();
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_millis(200) {
        let told = first.calls();
        assert!(matches!(told, Ok(_) | Err(CallError::Revoked(Outcome::Unknown))), "{told:?}");
    }
}

#[test]
fn calls_go_on_where_the_next_server_says_that_it_has_the_same_state() {
    let _watchdog = Watchdog::new("calls_go_on_where_the_next_server_has_the_same_state");
    let name = Room::name("states");
    let mut server = start(&name, "store", "340282366920938463463374607431768211455");
    let client = StoreClient::import_resilient(&name, patient()).unwrap();
    for (state, goes_on) in [
        ("340282366920938463463374607431768211455", true),
        ("7", false),
        ("7", true),
        ("", false),
        ("", false),
    ] {
        server.kill();
        server = start(&name, "store", state);
        match client.calls() {
            Ok(0) => assert!(goes_on, "{state}"),
            told => {
                restarted(&told, Outcome::NotStarted);
                assert!(!goes_on, "{state}");
                client.acknowledge_restart();
                assert_eq!(client.calls(), Ok(0), "it was not made at all");
            }
        }
    }
}

#[test]
fn a_hook_restores_the_state_before_any_other_call() {
    let _watchdog = Watchdog::new("a_hook_restores_the_state_before_any_other_call");
    let name = Room::name("hook");
    let mut server = start(&name, "store", "");
    let restored = Arc::new(AtomicU32::new(0));
    let counts = restored.clone();
    let client = StoreClient::import_resilient_with(&name, patient(), move |store| {
        counts.fetch_add(1, Ordering::SeqCst);
        match store.calls()? {
            0 => Ok(store.open_again(DbId(1), "first")?),
            calls => Err(format!("{calls} came before").into()),
        }
    });
    let client = client.unwrap();
    assert_eq!((client.open("first"), restored.load(Ordering::SeqCst)), (Ok(DbId(1)), 0));
    for round in 1..=3 {
        stop(server.pid());
        let calls = client.counters().calls;
        let writers: Vec<_> = (0..10)
            .map(|_| {
                let client = client.clone();
                thread::spawn(move || client.write(DbId(1), "of the first"))
            })
            .collect();
        until("the calls to be posted", || (client.counters().calls == calls + 10).then_some(()));
        server.kill();
        server = start(&name, "store", "");
        for writer in writers {
            assert_eq!(writer.join().unwrap(), Ok(()));
        }
        assert_eq!(client.read(DbId(1)), Ok(("first".to_owned(), "of the first".to_owned())));
        assert_eq!(restored.load(Ordering::SeqCst), round);
    }
}

#[test]
fn a_hook_that_fails_leaves_it_to_the_clients() {
    let _watchdog = Watchdog::new("a_hook_that_fails_leaves_it_to_the_clients");
    for (of, panics) in [("fails", false), ("panics", true)] {
        let name = Room::name(of);
        let mut server = start(&name, "store", "");
        let client = StoreClient::import_resilient_with(&name, patient(), move |store| {
            assert!(!panics, "no {:?}", DbId(1));
            store.read(DbId(1))?;
            Ok(())
        });
        let client = client.unwrap();
        server.kill();
        server = start(&name, "store", "");
        match client.calls() {
            Err(CallError::Restarted(Outcome::NotStarted, why)) => {
                assert!(why.contains("the hook") && why.contains("no DbId(1)"), "{why}");
            }
            told => panic!("{told:?}"),
        }
        client.acknowledge_restart();
        assert_eq!(client.open("first"), Ok(DbId(1)));
        drop(server);
    }
}

#[test]
fn a_hook_runs_no_longer_than_anybody_waits() {
    let _watchdog = Watchdog::new("a_hook_runs_no_longer_than_anybody_waits");
    let name = Room::name("hook-stays");
    let mut server = start(&name, "store", "");
    let runs = Arc::new(AtomicU32::new(0));
    let counts = runs.clone();
    let client = StoreClient::import_resilient_with(&name, patient(), move |store| {
        let id = store.open("first")?;
        // The first hook hangs in a call that only its abandonment ends.
        if counts.fetch_add(1, Ordering::SeqCst) == 0 { Ok(store.set_and_stay(id, "text")?) } else { Ok(()) }
    });
    let client = client.unwrap();
    server.kill();
    let _server = start(&name, "store", "");
    let told = client.with_deadline(Duration::from_millis(300)).calls();
    assert_eq!(told, Err(CallError::Deadline(Outcome::NotStarted)));
    // The next server gets a hook of its own, over a binding of its own.
    assert!(client.calls().is_ok());
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}
