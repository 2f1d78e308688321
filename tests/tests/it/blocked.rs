//! Handlers that block in the kernel without announcing it. They take the service away from nobody
//! else.

use underpass_harness::{alone, skip};
use underpass_tests::{Puppet, Room, SOMEBODY, Watchdog, until};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

/// More ms than any test takes.
const FOR_EVER: u64 = 3_600_000;
/// The number of activations that may be blocked in one user's calls.
const BLOCKED: u32 = 16;

/// A server in a process of its own, with `processors` processors, and the name of the reception
/// that it exports.
fn server(of: &str, processors: u32, blocked: u32) -> (Puppet, String) {
    let name = Room::name(&format!("{of}-{processors}"));
    let mut server = Puppet::with_processors(SERVER, processors);
    assert_eq!(server.ask(&format!("serve {name} {blocked}")), "()");
    (server, name)
}

/// A client of `name` with `bindings` bindings.
fn client(mut puppet: Puppet, name: &str, bindings: u32) -> Puppet {
    assert_eq!(puppet.ask(&format!("import {name} {bindings}")), "()");
    puppet
}

fn is_root() -> bool {
    underpass_os::process::user() == 0
}

/// The number of calls of the own user that have begun, asked over the first binding.
fn begun(client: &mut Puppet) -> u32 {
    client.ask("begun 0").parse().unwrap()
}

/// The number of activations, of blocked activations, and of listeners that run on donated
/// processors.
fn workers(client: &mut Puppet) -> [u32; 3] {
    let said = client.ask("workers 0");
    let numbers = said.trim_matches(['(', ')']).split(", ").map(|number| number.parse().unwrap());
    numbers.collect::<Vec<_>>().try_into().expect("three numbers")
}

/// Makes `client` start `calls` calls over its first binding. Each blocks for `ms` ms.
fn doze(client: &mut Puppet, calls: u32, ms: u64) {
    assert_eq!(client.ask(&format!("doze 0 {calls} {ms}")), "begun");
}

/// Waits until `calls` calls of `wait` and `doze` have begun.
fn all_begun(client: &mut Puppet, calls: u32) {
    until("all calls to begin", || (begun(client) == calls).then_some(()));
}

#[test]
fn more_blocked_handlers_than_processors_take_the_service_from_nobody() {
    alone!();
    let _watchdog = Watchdog::new("more_blocked_handlers_than_processors");
    for processors in 1..=4 {
        let (_server, name) = server("blocked", processors, BLOCKED);
        let mut other = client(Puppet::start(SERVER), &name, 1);
        assert_eq!(other.ask("add 0"), "3");
        let mut blocking = client(Puppet::start(SERVER), &name, 1);
        doze(&mut blocking, processors + 2, FOR_EVER);
        all_begun(&mut other, processors + 2);
        (0..100).for_each(|_| assert_eq!(other.ask("add 0"), "3"));
        assert_eq!(blocking.ask("add 0"), "3", "its own calls go on too");
        // A client that comes only now.
        assert_eq!(client(Puppet::start(SERVER), &name, 1).ask("add 0"), "3");
    }
}

/// In each round, a caller of another kind is the first that waits while all processors are
/// blocked. No earlier caller has had them replaced.
#[test]
fn every_kind_of_caller_gets_blocked_workers_replaced() {
    alone!();
    let _watchdog = Watchdog::new("whoever_waits_behind_blocked_handlers");
    // The channel of the last binding is dormant from the start.
    for (how, bindings) in [("add", 1), ("thread", 1), ("beside", 1), ("task", 1), ("add", 200)] {
        for processors in [1, 2] {
            let (mut server, name) = server(&format!("{how}-{bindings}"), processors, BLOCKED);
            // It has one processor, so that a thread can keep it busy.
            let mut other = client(Puppet::with_processors(SERVER, 1), &name, bindings);
            let mut blocking = client(Puppet::start(SERVER), &name, 1);
            doze(&mut blocking, processors, FOR_EVER);
            let all = processors.to_string();
            until("all processors to block", || (server.ask("begun-here") == all).then_some(()));
            let last = bindings - 1;
            assert_eq!(other.ask(&format!("{how} {last}")), "3", "{how}, {bindings}");
        }
    }
}

#[test]
fn one_user_s_blocked_handlers_leave_the_others_their_service() {
    alone!();
    /// Fewer than there may be in all.
    const FEW: u32 = 3;
    let _watchdog = Watchdog::new("one_user_s_blocked_handlers");
    if !is_root() {
        skip!("only root can become another user");
    }
    for processors in [1, 2] {
        let (_server, name) = server("users", processors, FEW);
        let mut root = client(Puppet::start(SERVER), &name, 1);
        let mut same = client(Puppet::of_user(SERVER, SOMEBODY), &name, 1);
        // More than there are activations, so that without a bound none would be left.
        let mut greedy = client(Puppet::of_user(SERVER, SOMEBODY), &name, 4);
        (0..4).for_each(|binding| {
            greedy.ask(&format!("doze {binding} 50 {FOR_EVER}"));
        });
        until("as many to block as may", || (begun(&mut root) >= FEW).then_some(()));
        until("the user to be held", || (workers(&mut root)[1] >= FEW).then_some(()));
        (0..200).for_each(|_| assert_eq!(root.ask("add 0"), "3"));
        // A later call of the same user is held back too, also from another process, until others
        // end. See the next test.
        same.begin("doze 0 1 0");
        (0..200).for_each(|_| assert_eq!(root.ask("thread 0"), "3"));
        let (all, [_, blocked, lent]) = (begun(&mut root), workers(&mut root));
        // Calls of that user that listeners run, on the user's own processors, are in nobody's way.
        let most = FEW + processors + lent;
        assert!((FEW..=most).contains(&all), "{all} have begun, {blocked} are blocked, {lent} on loan");
        drop(greedy);
    }
}

#[test]
fn calls_that_were_held_run_when_others_have_ended() {
    alone!();
    let _watchdog = Watchdog::new("calls_that_were_held_run_when_others_have_ended");
    for processors in [1, 2] {
        let (_server, name) = server("held", processors, 1);
        let mut greedy = client(Puppet::start(SERVER), &name, 3);
        (0..3).for_each(|binding| {
            greedy.ask(&format!("doze {binding} 7 20"));
        });
        assert_eq!(greedy.ask("join"), ["()"; 21].join(" "));
        assert_eq!(begun(&mut greedy), 21);
        assert_eq!(greedy.ask("add 2"), "3");
    }
}

#[test]
fn workers_that_took_the_places_of_blocked_ones_end_again() {
    alone!();
    let _watchdog = Watchdog::new("workers_that_took_the_places_of_blocked_ones_end_again");
    for processors in [1, 2] {
        let (_server, name) = server("ends", processors, BLOCKED);
        let mut other = client(Puppet::start(SERVER), &name, 1);
        let usual = processors + underpass_os::cpu::allowed().unwrap().len() as u32;
        until("the first to be there", || (workers(&mut other)[0] == usual).then_some(()));
        // Twice, because other calls begin when the first ones have ended.
        for round in 1..=2 {
            let mut blocking = client(Puppet::start(SERVER), &name, 1);
            doze(&mut blocking, processors + 4, 500);
            all_begun(&mut other, round * (processors + 4));
            until("others in their places", || (workers(&mut other)[0] > usual).then_some(()));
            blocking.ask("join");
            until("them to end", || (workers(&mut other)[0] == usual).then_some(()));
            assert_eq!(other.ask("add 0"), "3");
        }
    }
}
