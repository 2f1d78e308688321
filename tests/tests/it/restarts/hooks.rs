//! What happens to hooks that restore a client's state, and settings that are made while they run.

use crate::restarts::SERVER;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;
use underpass::{CallError, Outcome, Policy, thread};
use underpass_tests::{DbId, Room, ServerProcess, Store, StoreClient, Watchdog, cont, stop};

fn patient() -> Policy {
    Policy::new().patience(Duration::from_secs(60))
}

#[test]
fn a_hook_that_a_draining_server_turns_away_runs_again_over_the_next_one() {
    let _watchdog = Watchdog::new("a_hook_that_a_draining_server_turns_away_runs_again");
    let name = Room::name("hook-drained");
    let mut first = ServerProcess::start(SERVER, &name, "store");
    let (begins, begun) = mpsc::channel();
    let (replace, replaced) = mpsc::channel::<()>();
    let (runs, replaced) = (AtomicU32::new(0), Mutex::new(replaced));
    let hook = move |store: &StoreClient| {
        if runs.fetch_add(1, Ordering::SeqCst) == 0 {
            begins.send(())?;
            replaced.lock().unwrap().recv()?;
            while store.calls().is_ok() {}
            assert_eq!(store.calls(), Err(CallError::Closed(Outcome::NotStarted)));
            // The server's message is not in the error.
            return Err("it could not".into());
        }
        Ok(store.open_again(DbId(7), "first")?)
    };
    let client = StoreClient::import_resilient_with(&name, patient(), hook).unwrap();
    first.kill();
    let mut second = ServerProcess::start(SERVER, &name, "store");
    // While this call is in progress, the server drains and does not end.
    let stays = StoreClient::import_within(&name, ServerProcess::soon()).unwrap();
    let id = stays.open("other").unwrap();
    let other = stays.clone();
    let stays = thread::spawn(move || other.set_and_stay(id, "text"));
    let caller = thread::spawn(move || client.read(DbId(7)));
    begun.recv().unwrap();
    let _third = ServerProcess::start(SERVER, &name, "store-replace");
    second.leave_the_name();
    replace.send(()).unwrap();
    assert_eq!(caller.join().unwrap(), Ok(("first".to_owned(), String::new())));
    assert!(!stays.is_finished(), "the second one drains still");
    second.kill();
    assert_eq!(stays.join().unwrap(), Err(CallError::PeerDied(Outcome::Unknown)));
}

#[test]
fn a_quarantine_that_is_set_while_a_hook_runs_counts_for_the_next_binding() {
    let _watchdog = Watchdog::new("a_quarantine_that_is_set_while_a_hook_runs_counts");
    let name = Room::name("hook-quarantine");
    let mut server = ServerProcess::start(SERVER, &name, "store");
    let whole = Arc::new(OnceLock::<StoreClient>::new());
    let runs = Arc::new(AtomicU32::new(0));
    let (own, counts) = (whole.clone(), runs.clone());
    let hook = move |_: &StoreClient| {
        counts.fetch_add(1, Ordering::SeqCst);
        own.get().ok_or("it is restored before it is there")?.quarantine(0);
        Ok(())
    };
    let client = StoreClient::import_resilient_with(&name, patient(), hook).unwrap();
    whole.set(client.clone()).unwrap();
    server.kill();
    server = ServerProcess::start(SERVER, &name, "store");
    assert_eq!((client.calls(), runs.load(Ordering::SeqCst)), (Ok(0), 1));
    stop(server.pid());
    let told = client.with_deadline(Duration::from_millis(100)).calls();
    assert_eq!(told, Err(CallError::Deadline(Outcome::NotStarted)));
    cont(server.pid());
    // The server may hold no abandoned call, so that binding has ended.
    assert!(client.calls().is_ok());
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}
