//! The cost of a wake-up by another domain is learnt from that domain, also in a domain without
//! other wake-ups: one of plain kernel threads, or with one CPU.

use underpass_os::cpu;
use underpass_processor::{set_wake_up_cost, wake_up_cost};
use underpass_skip::skip;
use underpass_tests::{Probe, ProbeClient, Room, ServerProcess, Watchdog, until};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

/// Less than any wake-up from another CPU takes.
const TOO_LITTLE: u64 = 3_000;

#[test]
fn the_cost_of_a_peers_wake_up_is_learnt() {
    let _watchdog = Watchdog::new("the_cost_of_a_peers_wake_up_is_learnt");
    let cpus = cpu::allowed().unwrap();
    // The kernel threads that are started from here on stay on one CPU, and the server on another.
    // So only the server's wake-ups come from another CPU.
    let [own, other, ..] = cpus[..] else {
        skip!("there is no second CPU that could wake this one");
    };
    cpu::confine(&[own]).unwrap();
    let server = ServerProcess::start_with(SERVER, &Room::name("wake-ups"), "probe", |command| {
        command.env("UNDERPASS_TEST_CPU", other.to_string());
    });
    let client = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    set_wake_up_cost(TOO_LITTLE);
    until("the estimate to rise", || {
        // Longer than any side polls.
        client.nap(2).unwrap();
        (wake_up_cost() > 2 * TOO_LITTLE).then_some(())
    });
}
