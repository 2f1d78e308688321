//! The memory and the mappings that many calls take while they wait in their handlers.

use std::sync::atomic::Ordering;
use underpass::{Limits, Server, estacks};
use underpass_harness::alone;
use underpass_tests::{PublicRoom, Puppet, Reception, Receptionist, Room, Watchdog, kib_of, long, until};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

/// The number of mappings of this process.
fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

#[test]
fn thousands_of_calls_wait_on_stacks_of_their_own() {
    alone!();
    /// The most that one waiting call may take beside its binding, in KiB.
    const MOST: u64 = 32;
    let _watchdog = Watchdog::new("thousands_of_calls_wait_on_stacks_of_their_own");
    let files = underpass_os::process::raise_files().unwrap() as usize;
    let count = if long() { 10_000 } else { 2_000 }.min(files.saturating_sub(500));
    let (name, receptionist) = (Room::name("stacks"), Receptionist::default());
    let _running = Server::new()
        .directory(PublicRoom::directory(SERVER))
        .limits_of(underpass_os::process::user(), Limits::NONE)
        .export(&name, Reception::serve(receptionist.clone()))
        .start()
        .unwrap();
    estacks::set(count + 1);
    let mut puppet = Puppet::start(SERVER);
    assert_eq!(puppet.ask(&format!("import {name} {count}")), "()");
    let memory = || {
        let own = std::process::id();
        kib_of(own, "RssAnon") + kib_of(own, "VmPTE")
    };
    let before = (memory(), mappings());
    assert_eq!(puppet.ask("each"), "begun");
    until("all to wait", || (estacks::counts().associated >= count).then_some(()));
    let (each, maps) = ((memory() - before.0) as f64 / count as f64, mappings() - before.1);
    println!("{count} calls wait, with {each:.1} KiB each, and {maps} mappings more");
    assert!(each <= MOST as f64, "{each} KiB for each call that waits");
    // Two mappings each where a guard page is a mapping of its own. A process may usually have
    // 65,530.
    assert!(maps <= 2 * count + 1000, "{maps} mappings");
    receptionist.open.store(1, Ordering::SeqCst);
    assert_eq!(puppet.ask("join"), vec!["()"; count].join(" "), "every call is answered");
    until("the last to end", || (estacks::counts().associated == 0).then_some(()));
}
