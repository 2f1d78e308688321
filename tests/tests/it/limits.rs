//! The limits on what one user may have of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use underpass::{Limits, Server};
use underpass_harness::{alone, skip};
use underpass_tests::{
    ANOTHER, PublicRoom, Puppet, Reception, Receptionist, Room, SOMEBODY, Watchdog, until,
};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

fn server() -> Server {
    Server::new().directory(PublicRoom::directory(SERVER)).mode(0o666)
}

fn is_root() -> bool {
    underpass_os::process::user() == 0
}

#[test]
fn a_users_bindings_are_limited_and_other_users_are_unaffected() {
    alone!();
    let _watchdog = Watchdog::new("a_user_has_so_many_bindings");
    if !is_root() {
        skip!("only root can become another user");
    }
    let (name, second) = (Room::name("bindings"), Room::name("second"));
    let few = Limits { bindings: 8, ..Limits::default() };
    let _running = server()
        .limits(few)
        .limits_of(ANOTHER, Limits { bindings: 2, ..few })
        .export(&name, Reception::serve(Receptionist::default()))
        .export(&second, Reception::serve(Receptionist::default()))
        .start()
        .unwrap();
    let [mut root, mut somebody, mut another] =
        [0, SOMEBODY, ANOTHER].map(|uid| Puppet::of_user(SERVER, uid));
    assert_eq!(somebody.ask(&format!("import {name} 8")), "()");
    let refused = somebody.ask(&format!("import {second} 1"));
    assert!(refused.contains("Limit(") && refused.contains("user 61000 has 8 bindings"), "{refused}");
    // Another process of the same user counts for the same user.
    let mut beside = Puppet::of_user(SERVER, SOMEBODY);
    assert!(beside.ask(&format!("import {name} 1")).contains("Limit("));
    let refused = another.ask(&format!("import {name} 3"));
    assert!(refused.contains("user 61001 has 2 bindings"), "{refused}");
    until("room for two", || (another.ask(&format!("import {name} 2")) == "()").then_some(()));
    assert_eq!((another.ask("add 1"), somebody.ask("add 7")), ("3".to_owned(), "3".to_owned()));
    assert_eq!(root.ask(&format!("import {name} 40")), "()", "root has limits of its own");
    somebody.ask("drop");
    until("room for another", || (beside.ask(&format!("import {name} 1")) == "()").then_some(()));
    drop(somebody);
    until("room for seven more", || (beside.ask(&format!("import {name} 7")) == "()").then_some(()));
}

#[test]
fn a_users_memory_is_limited_apart_from_its_bindings() {
    alone!();
    let _watchdog = Watchdog::new("a_users_memory_is_limited_apart_from_its_bindings");
    let name = Room::name("memory");
    let own = underpass_os::process::user();
    let _running = server()
        .limits_of(own, Limits { memory: 5 << 20, ..Limits::default() })
        .export(&name, Reception::serve(Receptionist::default()))
        .start()
        .unwrap();
    let mut puppet = Puppet::start(SERVER);
    assert_eq!(puppet.ask(&format!("import {name} 2")), "()");
    let refused = puppet.ask(&format!("import {name} 1"));
    assert!(refused.contains("Limit(") && refused.contains("5242880 bytes"), "{refused}");
}

#[test]
fn one_client_that_opens_thousands_keeps_nobody_out_by_default() {
    alone!();
    let _watchdog = Watchdog::new("one_client_that_opens_thousands");
    if !is_root() {
        skip!("only root can become another user");
    }
    let name = Room::name("thousands");
    let running = server().export(&name, Reception::serve(Receptionist::default())).start().unwrap();
    let mut greedy = Puppet::of_user(SERVER, SOMEBODY);
    assert_eq!(greedy.ask(&format!("import {name} 256")), "()");
    let refused = greedy.ask(&format!("import {name} 5000"));
    assert!(refused.contains("Limit(") && refused.contains("user 61000 has 256 bindings"), "{refused}");
    let mut other = Puppet::of_user(SERVER, ANOTHER);
    assert_eq!(other.ask(&format!("import {name} 1")), "()");
    assert_eq!(other.ask("add 0"), "3");
    assert_eq!(running.bindings().list().len(), 257);
}

#[test]
fn calls_beyond_their_users_limit_wait_and_then_run() {
    alone!();
    let _watchdog = Watchdog::new("calls_beyond_their_users_limit_wait");
    let name = Room::name("calls");
    let receptionist = Receptionist::default();
    let own = underpass_os::process::user();
    const CALLS: usize = 10;
    let _running = server()
        .limits_of(own, Limits { calls: CALLS, ..Limits::default() })
        .export(&name, Reception::serve(receptionist.clone()))
        .start()
        .unwrap();
    let begun = || receptionist.begun.load(Ordering::SeqCst) as usize;
    let mut puppet = Puppet::start(SERVER);
    assert_eq!(puppet.ask(&format!("import {name} 3")), "()");
    puppet.ask("wait 0 40");
    until("calls to begin", || (begun() == CALLS + 1).then_some(()));
    // The other bindings of that user have one call each, and no more.
    puppet.ask("wait 1 20");
    until("one more to begin", || (begun() == CALLS + 2).then_some(()));
    assert_eq!(puppet.ask("add 2"), "3", "calls that nothing overlaps are never held");
    assert_eq!(puppet.ask("add 2"), "3");
    assert_eq!(begun(), CALLS + 2);
    receptionist.open.store(1, Ordering::SeqCst);
    assert_eq!(puppet.ask("join"), ["()"; 60].join(" "), "all have run in the end");
    assert_eq!(begun(), 60);
}

#[test]
fn a_slow_decision_about_one_user_keeps_no_other_out() {
    alone!();
    let _watchdog = Watchdog::new("a_slow_decision_about_one_user");
    if !is_root() {
        skip!("only root can become another user");
    }
    let name = Room::name("slow");
    let (decided, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (flag, seen) = (decided.clone(), asked.clone());
    let decide = move |peer: &underpass::Peer| {
        if peer.uid() == SOMEBODY {
            seen.store(true, Ordering::SeqCst);
            while !flag.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }
        true
    };
    let _running =
        server().export(&name, Reception::serve(Receptionist::default()).authorize(decide)).start().unwrap();
    let [mut slow, mut other] = [SOMEBODY, ANOTHER].map(|uid| Puppet::of_user(SERVER, uid));
    slow.begin(&format!("import {name} 1"));
    until("the slow question", || asked.load(Ordering::SeqCst).then_some(()));
    let let_in = other.ask(&format!("import {name} 3"));
    decided.store(true, Ordering::SeqCst);
    assert_eq!((let_in, other.ask("add 2")), ("()".to_owned(), "3".to_owned()));
    slow.hear();
}
