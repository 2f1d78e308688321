//! The stacks of calls. Their number is bounded for all callers, and stacks that are not needed are
//! freed.

use std::sync::atomic::Ordering;
use underpass::{Limits, Server, estacks, processors};
use underpass_harness::alone;
use underpass_tests::{PublicRoom, Puppet, Reception, Receptionist, Room, Watchdog, long, until};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");
/// The most stacks that are kept, for each activation and for all together, once the others were
/// not needed for a while.
const KEPT: u64 = 64;

/// `count` bindings of one process call at once. At most `bound` of the calls may wait in their
/// handlers.
fn so_many_wait(name: &str, count: usize, bound: usize) {
    let (name, receptionist) = (Room::name(name), Receptionist::default());
    let own = underpass_os::process::user();
    let _running = Server::new()
        .directory(PublicRoom::directory(SERVER))
        .limits_of(own, Limits::NONE)
        .export(&name, Reception::serve(receptionist.clone()))
        .start()
        .unwrap();
    let shortages = estacks::counts().shortages;
    estacks::set(bound);
    let begun = || receptionist.begun.load(Ordering::SeqCst) as usize;
    let mut puppet = Puppet::start(SERVER);
    assert_eq!(puppet.ask(&format!("import {name} {count}")), "()");
    assert_eq!(puppet.ask("each"), "begun");
    until("as many to wait as may", || (begun() >= bound).then_some(()));
    until("the others to have to wait", || (estacks::counts().shortages > shortages).then_some(()));
    assert!(begun() <= bound + activations(), "{} have begun, {:?}", begun(), estacks::counts());
    receptionist.open.store(1, Ordering::SeqCst);
    assert_eq!(puppet.ask("join"), vec!["()"; count].join(" "), "every call is answered");
    assert_eq!(begun(), count);
    assert_eq!(puppet.ask(&format!("add {}", count - 1)), "3");
    let most = estacks::counts().most_associated;
    println!("{count} clients' calls, {most} of them at once in their handlers");
    until("the last to end", || (estacks::counts().associated == 0).then_some(()));
}

/// The number of activations, listeners included.
fn activations() -> usize {
    processors::activation_counts().unwrap().activations
}

#[test]
fn thousands_of_clients_hold_a_bounded_number_of_stacks() {
    alone!();
    const BOUND: usize = 256;
    let clients = if long() { 10_000 } else { 2_000 };
    let _watchdog = Watchdog::new("thousands_of_clients_hold_a_bounded_number");
    let files = underpass_os::process::raise_files().unwrap() as usize;
    so_many_wait("crowd", clients.min(files.saturating_sub(500)), BOUND);
    let counts = estacks::counts();
    assert!(counts.most_associated <= BOUND + activations(), "{counts:?}");
    until("those that are not needed to go", || {
        let (counts, kept) = (estacks::counts(), KEPT * (activations() as u64 + 1));
        // If the handlers waited on many activations, each activation may keep all of its own
        // stacks.
        (counts.exist <= kept && (counts.reclaimed > 0 || BOUND as u64 <= kept)).then_some(())
    });
}

#[test]
fn with_one_stack_all_calls_run_in_turn() {
    alone!();
    let _watchdog = Watchdog::new("with_one_stack_all_calls_run_in_turn");
    so_many_wait("narrow", 100, 1);
}
