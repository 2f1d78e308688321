//! A forked child takes no part in its parent's bindings and cannot damage them.

use super::SERVER;
use super::child::in_child;
use super::contained::{contained, is_without};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use underpass::{CallError, Counters, ImportError, Policy, Server, ShareError, thread};
use underpass_harness::{alone, skip};
use underpass_tests::{
    Probe, ProbeClient, PublicRoom, Puppet, Room, ServerProcess, Subject, Watchdog, kill, regions_of,
    state_of, until,
};

/// Uses everything that a child may try, and drops it.
fn misuse(client: ProbeClient, again: &ProbeClient, name: &str) -> i32 {
    let forked = Err(CallError::Forked);
    let large = vec![7; 1 << 20];
    let refused = [
        client.add(1, 2) == forked,
        again.add(1, 2) == forked,
        client.count(&large).is_err(),
        ProbeClient::import(name).is_err_and(|e| e.to_string().contains("forked off")),
        matches!(client.share_with(std::io::stdin()), Err(ShareError::Call(CallError::Forked))),
        Server::new().export(format!("{name}-child"), Probe::serve(Subject::default())).start().is_err(),
    ];
    drop(client);
    refused.iter().position(|refused| !refused).map_or(0, |at| at as i32 + 1)
}

/// Forks in the middle of a program that calls.
fn forks(name: &str) {
    let clients = || {
        let again = ProbeClient::import_resilient(name, Policy::default()).unwrap();
        (ProbeClient::import_within(name, ServerProcess::soon()).unwrap(), again)
    };
    let (client, again) = clients();
    assert_eq!((client.add(1, 2), again.add(1, 2)), (Ok(3), Ok(3)));
    for _ in 0..10 {
        let (copy, name) = (client.clone(), name.to_owned());
        // Parent and child each drop a copy. The child also drops the last one.
        assert_eq!(in_child(|| misuse(copy, &again, &name)), Some(0));
        assert_eq!((client.add(1, 2), again.add(3, 4)), (Ok(3), Ok(7)));
    }
}

#[test]
fn a_child_that_is_forked_off_can_t_hurt_its_parents_bindings() {
    alone!();
    let _watchdog = Watchdog::new("a_child_that_is_forked_off_can_t_hurt_its_parents_bindings");
    let server = ServerProcess::start(SERVER, &Room::name("fork"), "shared");
    forks(server.name());
    let name = server.name().to_owned();
    thread::spawn(move || forks(&name)).join().unwrap();
}

#[test]
fn a_child_is_told_so_though_another_thread_was_at_the_binding_as_it_forked() {
    alone!();
    let _watchdog = Watchdog::new("a_child_is_told_so_though_another_thread_was_at_the_binding");
    let server = ServerProcess::start(SERVER, &Room::name("fork-within"), "shared");
    let client = ProbeClient::import_resilient(server.name(), Policy::default()).unwrap();
    let (forks, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let told: Vec<_> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                // This takes the lock under which a call looks for its binding.
                client.acknowledge_restart();
                forks.store(true, Ordering::SeqCst);
            }
        });
        until("the other thread to be at it", || forks.load(Ordering::SeqCst).then_some(()));
        let own = client.clone();
        let is_told = || {
            let shared = own.share_with(std::io::stdin());
            own.quarantine(1);
            own.acknowledge_restart();
            own.add(1, 2) == Err(CallError::Forked)
                && matches!(shared, Err(ShareError::Call(CallError::Forked)))
                && own.counters() == Counters::default()
                && format!("{own:?}").contains("forked off")
        };
        let told = (0..100).map(|_| in_child(|| i32::from(!is_told()))).collect();
        over.store(true, Ordering::SeqCst);
        told
    });
    assert_eq!(told, [Some(0); 100]);
    assert_eq!(client.add(1, 2), Ok(3));
}

#[test]
fn a_child_drops_a_call_that_waits_for_the_next_server() {
    alone!();
    let _watchdog = Watchdog::new("a_child_drops_a_call_that_waits");
    let mut server = ServerProcess::start(SERVER, &Room::name("fork-waits"), "probe");
    let policy = Policy::default().patience(Duration::from_secs(3_600));
    let client = ProbeClient::import_resilient(server.name(), policy).unwrap();
    server.kill();
    let (forks, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let dropped: Vec<_> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                client.acknowledge_restart();
                forks.store(true, Ordering::SeqCst);
            }
        });
        until("the other thread to be at it", || forks.load(Ordering::SeqCst).then_some(()));
        let mut call = Some(Box::pin(client.add_async(1, 2)));
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(call.as_mut().unwrap().as_mut().poll(&mut context), Poll::Pending);
        let dropped = (0..100)
            .map(|n| {
                in_child(|| {
                    let mut call = call.take().unwrap();
                    let polled = (n % 2 == 1).then(|| call.as_mut().poll(&mut context));
                    i32::from(polled.is_some_and(|polled| polled != Poll::Ready(Err(CallError::Forked))))
                })
            })
            .collect();
        over.store(true, Ordering::SeqCst);
        dropped
    });
    assert_eq!(dropped, [Some(0); 100]);
}

#[test]
fn a_child_drops_a_call_that_is_under_way() {
    alone!();
    let _watchdog = Watchdog::new("a_child_drops_a_call_that_is_under_way");
    let server = ServerProcess::start(SERVER, &Room::name("fork-under-way"), "probe");
    let client = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    let again = ProbeClient::import_resilient(server.name(), Policy::default()).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    for client in [&client, &client.with_deadline(Duration::from_secs(3_600)), &again] {
        let mut call = Some(Box::pin(client.nap_async(3_600_000)));
        assert_eq!(call.as_mut().unwrap().as_mut().poll(&mut context), Poll::Pending);
        let dropped = [false, true].map(|polls| {
            in_child(|| {
                let mut call = call.take().unwrap();
                let polled = polls.then(|| call.as_mut().poll(&mut context));
                i32::from(polled.is_some_and(|polled| polled != Poll::Ready(Err(CallError::Forked))))
            })
        });
        assert_eq!(dropped, [Some(0); 2]);
        assert_eq!(client.add(1, 2), Ok(3));
    }
}

#[test]
fn a_child_that_drops_its_last_binding_leaves_the_parents() {
    alone!();
    let _watchdog = Watchdog::new("a_child_that_drops_its_last_binding_leaves_the_parents");
    let server = ServerProcess::start(SERVER, &Room::name("last"), "probe");
    let mut client = Some(ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap());
    assert_eq!(client.as_ref().unwrap().add(1, 2), Ok(3));
    assert_eq!(in_child(|| i32::from(client.take().is_none())), Some(0));
    // The parent still has its own.
    assert_eq!(client.unwrap().add(1, 2), Ok(3));
}

#[test]
fn a_child_that_lives_on_does_not_hide_its_parents_death() {
    alone!();
    let _watchdog = Watchdog::new("a_child_that_lives_on_does_not_hide");
    dies_before_its_child("breed");
}

#[test]
fn a_child_forked_without_free_files_does_not_hide_its_parents_death() {
    alone!();
    let _watchdog = Watchdog::new("nor_does_one_that_is_forked_off");
    dies_before_its_child("breed-full");
}

fn dies_before_its_child(what: &str) {
    let server = ServerProcess::start(SERVER, &Room::name(what), "probe");
    let mut started = contained(",0", what, server.name());
    let mut started = started.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(started.stdout.take().unwrap()).read_line(&mut said).unwrap();
    if said.is_empty() && is_without(started.wait().unwrap()) {
        skip!("this user can make no container");
    }
    let numbers: Vec<u32> = said.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [parent, child] = numbers[..] else { panic!("{said}") };
    let lives = || ["S", "R"].iter().any(|state| state_of(child).contains(state));
    let name = format!("{}-bred", server.name());
    let bred = ProbeClient::import_within(&name, ServerProcess::soon()).unwrap();
    let called = bred.clone();
    let asleep = std::thread::spawn(move || called.nap(3_600_000));
    assert_eq!((bred.add(1, 2), regions_of(server.pid())), (Ok(3), 1));
    kill(parent);
    // Its client, its server, and the waiter for its name learn of it.
    assert!(matches!(asleep.join().unwrap(), Err(CallError::PeerDied(_))));
    until("the server to hear of it", || (regions_of(server.pid()) == 0).then_some(()));
    assert!(matches!(ProbeClient::import(&name), Err(ImportError::Dead(_))));
    assert!(lives(), "the child has nothing to do with it");
    drop(started.stdin.take());
    until("the child to end", || (!lives()).then_some(()));
    started.wait().unwrap();
    let _ = std::fs::remove_file(Room::directory().join(&name));
}

#[test]
fn a_servers_child_leaves_its_name_and_its_bindings() {
    alone!();
    let _watchdog = Watchdog::new("a_servers_child_leaves_its_name_and_its_bindings");
    let name = Room::name("parent");
    let service = underpass_tests::Reception::serve(underpass_tests::Receptionist::default());
    let mut running =
        Some(Server::new().directory(PublicRoom::directory(SERVER)).export(&name, service).start().unwrap());
    let mut puppet = Puppet::start(SERVER);
    assert_eq!(puppet.ask(&format!("import {name} 1")), "()");
    assert_eq!(in_child(|| i32::from(running.take().is_none())), Some(0));
    assert_eq!((puppet.ask("add 0"), puppet.ask(&format!("import {name} 1"))), ("3".into(), "()".into()));
    assert_eq!(running.unwrap().bindings().list().len(), 2);
    until("the puppet's hearing of it", || puppet.ask("add 0").contains("Closed").then_some(()));
}
