//! Deaths and stops beside asynchronous and synchronous ports, task signals, streams and objects
//! with a home, at steps that a seed chooses. `tests/src/death/ports.rs` says what the survivors
//! check.

use crate::death::rounds::{one, run};

/// The processes that die or stop in one role, with all CPUs and with one. With
/// `$UNDERPASS_TEST_LONG` there are 12,500 in all.
fn rounds() -> usize {
    match (underpass_tests::long(), cfg!(underpass_failpoints)) {
        (true, _) => 625,
        (false, true) => 40,
        (false, false) => 12,
    }
}

fn survived(role: &str) {
    for cpu in [None, one()] {
        run(&["ports", role], &format!("{role}-{}", cpu.is_some()), rounds(), cpu);
    }
}

#[test]
fn an_owner_survives_its_senders() {
    survived("message-sender");
}

#[test]
fn a_sender_survives_its_owners() {
    survived("message-owner");
}

#[test]
fn an_owner_survives_those_that_wait_for_replies() {
    survived("request-sender");
}

#[test]
fn a_sender_that_waits_for_replies_survives_its_owners() {
    survived("request-owner");
}

#[test]
fn a_receiver_of_signals_survives_their_senders() {
    survived("signal-sender");
}

#[test]
fn a_sender_of_signals_survives_their_receivers() {
    survived("signal-receiver");
}

#[test]
fn a_client_survives_the_servers_of_its_streams() {
    survived("row-server");
}

#[test]
fn a_server_survives_the_clients_of_its_streams() {
    survived("row-client");
}

#[test]
fn a_home_survives_its_remotes() {
    survived("homed-remote");
}

#[test]
fn a_remote_survives_its_homes() {
    survived("homed-home");
}
