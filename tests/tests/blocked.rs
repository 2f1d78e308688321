//! Handlers that block in the kernel without having said so: they take the service from nobody else.

use underpass_tests::{ANOTHER, Puppet, Room, SOMEBODY, Watchdog, state_of, switches_of, ticks_of, until};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

/// More than any test takes.
const FOR_EVER: u64 = 3_600_000;
/// Activations that may be blocked in one user's calls.
const BLOCKED: u32 = 16;

/// A server in a process of its own, with so many processors, that exports a desk under that name.
fn server(of: &str, processors: u32, blocked: u32) -> (Puppet, String) {
    let name = Room::name(&format!("{of}-{processors}"));
    let mut server = Puppet::with_processors(SERVER, processors);
    assert_eq!(server.ask(&format!("serve {name} {blocked}")), "()");
    (server, name)
}

/// A client of `name` with so many bindings.
fn client(mut puppet: Puppet, name: &str, bindings: u32) -> Puppet {
    assert_eq!(puppet.ask(&format!("import {name} {bindings}")), "()");
    puppet
}

fn is_root() -> bool {
    let root = underpass_os::process::user() == 0;
    if !root {
        eprintln!("not run: only root can become another user");
    }
    root
}

/// Of one's own user, called over the first binding: how many calls have begun.
fn begun(client: &mut Puppet) -> u32 {
    client.ask("begun 0").parse().unwrap()
}

/// How many activations there are, and how many of them are blocked.
fn workers(client: &mut Puppet) -> (u32, u32) {
    let said = client.ask("workers 0");
    let numbers = said.trim_matches(['(', ')']).split_once(", ").expect("two numbers");
    (numbers.0.parse().unwrap(), numbers.1.parse().unwrap())
}

#[test]
fn more_blocked_handlers_than_processors_take_the_service_from_nobody() {
    let _watchdog = Watchdog::new("more_blocked_handlers_than_processors");
    for processors in 1..=4 {
        let (_server, name) = server("blocked", processors, BLOCKED);
        let mut other = client(Puppet::start(SERVER), &name, 1);
        assert_eq!(other.ask("add 0"), "3");
        let mut blocking = client(Puppet::start(SERVER), &name, 1);
        blocking.ask(&format!("doze 0 {} {FOR_EVER}", processors + 2));
        until("all of them to block", || (begun(&mut other) == processors + 2).then_some(()));
        (0..100).for_each(|_| assert_eq!(other.ask("add 0"), "3"));
        // Who comes only now.
        assert_eq!(client(Puppet::start(SERVER), &name, 1).ask("add 0"), "3");
    }
}
