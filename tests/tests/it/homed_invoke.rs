//! Invocations at interrupt level: each is executed once, in no critical section, and nobody is
//! held by a home that dies or stops, or by a requester that lies.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use underpass::homed::invoke::{HomeInvoker, InvocationHandlers, InvokeError};
use underpass::{Server, thread};
use underpass_tests::{ADD, ObedientProcess, PANIC, Room, Watchdog, cont, long, stop, until};

const PROCESS: &str = env!("CARGO_BIN_EXE_underpass-test-homed");
/// Longer than any test.
const LONG: Duration = Duration::from_secs(3_600);
const SHORT: Duration = Duration::from_millis(1);

fn start(name: &str, role: &str) -> ObedientProcess {
    Room::directory();
    ObedientProcess::start_on(Command::new(PROCESS).args([name, role]), None, role)
}

/// The total so far.
fn total(invoker: &HomeInvoker) -> u64 {
    invoker.invoke(ADD, [0; 6], LONG).unwrap()[0]
}

#[test]
fn invocations_of_several_domains_are_executed_once() {
    let _watchdog = Watchdog::new("invocations_of_several_domains_are_executed_once");
    invocations_are_executed_once("homed-urgent", "urgent");
}

#[test]
fn invocations_of_several_domains_are_executed_once_by_a_home_that_holds_interrupts() {
    let _watchdog =
        Watchdog::new("invocations_of_several_domains_are_executed_once_by_a_home_that_holds_interrupts");
    invocations_are_executed_once("homed-urgent-2", "urgent-held");
}

/// The home has this role.
fn invocations_are_executed_once(of: &str, role: &str) {
    const TIMES: u64 = 300;
    let name = Room::name(of);
    let mut home = start(&name, role);
    let mut other = start(&name, "requester");
    let invoker = HomeInvoker::connect(&name).unwrap();
    other.begin(&format!("add {TIMES}"));
    let work = || {
        let invoker = invoker.clone();
        move || {
            (0..TIMES).for_each(|number| {
                let [_, more, ..] = invoker.invoke(ADD, [number % 3, 0, 0, 0, 0, 0], LONG).unwrap();
                assert_eq!(more, number % 3);
            })
        }
    };
    // They overwrite each other's offers.
    let user = [thread::spawn(work()), thread::spawn(work())];
    let kernel = [std::thread::spawn(work()), std::thread::spawn(work())];
    user.into_iter().for_each(|thread| thread.join().unwrap());
    kernel.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(other.hear(), "added");
    assert_eq!(total(&invoker), 4 * TIMES + TIMES);
    assert_eq!(home.ask("handled"), (5 * TIMES + 1).to_string());
}

#[test]
fn interrupts_of_a_critical_section_are_queued_and_raised_again() {
    let _watchdog = Watchdog::new("interrupts_of_a_critical_section_are_queued_and_raised_again");
    interrupts_wait_for_a_section("homed-masked", "urgent");
}

#[test]
fn interrupts_of_a_critical_section_are_held_and_then_taken() {
    let _watchdog = Watchdog::new("interrupts_of_a_critical_section_are_held_and_then_taken");
    interrupts_wait_for_a_section("homed-held", "urgent-held");
}

/// The home has this role.
fn interrupts_wait_for_a_section(of: &str, role: &str) {
    let name = Room::name(of);
    let mut home = start(&name, role);
    let asks = HomeInvoker::connect(&name).unwrap();
    for round in 1..=20 {
        let (early, late) = (HomeInvoker::connect(&name).unwrap(), HomeInvoker::connect(&name).unwrap());
        assert_eq!(home.ask("mask"), "masked");
        let waits = std::thread::spawn(move || early.invoke(ADD, [1; 6], LONG));
        assert_eq!(late.invoke(ADD, [0; 6], SHORT), Err(InvokeError::Deadline));
        assert_eq!(home.ask("handled"), ((round - 1) * 3).to_string());
        assert_eq!(home.ask("unmask"), "unmasked");
        assert_eq!(waits.join().unwrap().unwrap()[0], round);
        assert_eq!(total(&asks), round);
        // What nobody waited for is executed as well: nothing has overwritten it.
        until("the third handler", || (home.ask("handled") == (round * 3).to_string()).then_some(()));
    }
}

#[test]
fn the_homes_death_ends_an_invocation() {
    let _watchdog = Watchdog::new("the_homes_death_ends_an_invocation");
    let name = Room::name("homed-urgent-death");
    let mut home = start(&name, "urgent");
    let invoker = HomeInvoker::connect(&name).unwrap();
    assert_eq!(home.ask("mask"), "masked");
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let invoker = invoker.clone();
            thread::spawn(move || invoker.invoke(ADD, [1; 6], LONG))
        })
        .collect();
    home.kill();
    waiting.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), Err(InvokeError::HomeDied)));
    assert_eq!(invoker.invoke(ADD, [1; 6], LONG), Err(InvokeError::HomeDied));
    let _home = start(&name, "urgent");
    assert_eq!(total(&HomeInvoker::connect(&name).unwrap()), 0);
}

#[test]
fn a_stopped_home_holds_nobody_beyond_the_deadline() {
    let _watchdog = Watchdog::new("a_stopped_home_holds_nobody_beyond_the_deadline");
    let name = Room::name("homed-urgent-stopped");
    let home = start(&name, "urgent");
    let invoker = HomeInvoker::connect(&name).unwrap();
    stop(home.pid());
    // More than an area has requests.
    for _ in 0..40 {
        assert_eq!(invoker.invoke(ADD, [1; 6], SHORT), Err(InvokeError::Deadline));
    }
    cont(home.pid());
    // The area gets its requests back. How many of the 16 abandoned ones were executed is open.
    assert!((0..100).map(|_| total(&invoker)).max().unwrap() <= 16);
}

#[test]
fn what_a_handler_does_wrong_is_told() {
    let _watchdog = Watchdog::new("what_a_handler_does_wrong_is_told");
    let name = Room::name("homed-urgent-wrong");
    let mut home = start(&name, "urgent");
    let invoker = HomeInvoker::connect(&name).unwrap();
    assert_eq!(invoker.invoke(PANIC, [0; 6], LONG), Err(InvokeError::Panicked));
    assert_eq!(invoker.invoke(9, [0; 6], LONG), Err(InvokeError::NoSuchOperation));
    assert_eq!(invoker.invoke(ADD, [7; 6], LONG), Ok([7, 7, 0, 0, 0, 0]));
    assert_eq!(home.ask("handled"), "2");
}

#[test]
fn no_invocation_goes_out_while_incoming_ones_are_disabled() {
    let _watchdog = Watchdog::new("no_invocation_goes_out_while_incoming_ones_are_disabled");
    let (name, here) = (Room::name("homed-urgent-rule"), Room::name("homed-urgent-here"));
    let _home = start(&name, "urgent");
    let invoker = HomeInvoker::connect(&name).unwrap();
    // A home in this domain. Its handler would like to invoke the other one.
    let (refused, theirs) = (Arc::new(AtomicU64::new(0)), invoker.clone());
    let counted = refused.clone();
    let (services, home) = InvocationHandlers::new()
        .on(1, move |operands| {
            let refusal = theirs.invoke(ADD, [1; 6], LONG) == Err(InvokeError::Masked);
            counted.fetch_add(u64::from(refusal), Ordering::Relaxed);
            operands
        })
        .start();
    let running = services.export(Server::new(), &here).start().unwrap();
    let own = HomeInvoker::connect(&here).unwrap();
    assert_eq!(own.invoke(1, [5; 6], LONG), Ok([5; 6]));
    assert_eq!(refused.load(Ordering::Relaxed), 1);
    let (outer, inner) = (home.mask(), home.mask());
    drop(outer);
    assert_eq!(invoker.invoke(ADD, [1; 6], LONG), Err(InvokeError::Masked), "one section is left");
    drop(inner);
    assert_eq!(invoker.invoke(ADD, [1; 6], LONG), Ok([1, 1, 0, 0, 0, 0]));
    // A home that has ended in this domain is told, too.
    drop(home);
    assert_eq!(own.invoke(1, [5; 6], LONG), Err(InvokeError::HomeDied));
    drop(running);
}

#[test]
fn a_requester_that_lies_harms_only_itself() {
    let _watchdog = Watchdog::within(
        "a_requester_that_lies_harms_only_itself",
        Duration::from_secs(if long() { 3_600 } else { 120 }),
    );
    let (rounds, times) = if long() { (50, 20_000) } else { (3, 100) };
    for round in 0..rounds {
        let name = Room::name(&format!("homed-urgent-liar-{round}"));
        let _home = start(&name, "urgent");
        let mut liar = start(&name, "requester");
        let invoker = HomeInvoker::connect(&name).unwrap();
        assert_eq!(liar.ask(&format!("lie {round} {times}")), "lies");
        for number in 0..200 {
            let [_, more, ..] = invoker.invoke(ADD, [number; 6], LONG).unwrap();
            assert_eq!(more, number);
        }
        assert_eq!(liar.hear(), "has lied");
        liar.kill();
        assert_eq!(invoker.invoke(ADD, [3; 6], LONG).unwrap()[1], 3);
    }
}
