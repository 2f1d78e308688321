//! A client that floods a server takes its share of the server, and no more.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use underpass::thread;
use underpass_harness::skip;
use underpass_os::cpu;
use underpass_tests::{Probe, ProbeClient, Room, ServerProcess, Watchdog, state_of, until};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

/// The most calls of one client in a row while others wait, as in the dispatcher.
const SHARE: u64 = 8;

/// Calls of the flood that wait already when the other client's call is examined.
const FLOOD: u64 = 60;

/// Activations that may serve: the server's only one, and one that replaces it if it is held up.
const SERVING: u64 = 2;

const ROUNDS: usize = 30;

fn signal(server: &ServerProcess, name: &str) {
    let sent = Command::new("kill").args([name, &server.pid().to_string()]).status();
    assert!(sent.unwrap().success());
}

/// The number of calls of the flood that are served before the other client's call, although that
/// came before them all.
fn served_before(server: &ServerProcess, flood: &ProbeClient, other: &ProbeClient) -> u64 {
    let served = other.turn().unwrap() + 1;
    signal(server, "-STOP");
    until("the server to stop", || state_of(server.pid()).bytes().all(|state| state == b'T').then_some(()));
    let (sleeps, calls) = (other.counters().sleeps, flood.counters().calls);
    let quiet = {
        let client = other.clone();
        std::thread::spawn(move || client.turn())
    };
    // A caller sleeps after it has posted, so a sleep shows that the call is posted.
    until("the other's call", || (other.counters().sleeps > sleeps).then_some(()));
    let threads: Vec<_> = (0..FLOOD)
        .map(|_| {
            let client = flood.clone();
            thread::spawn(move || client.turn())
        })
        .collect();
    until("the flood", || (flood.counters().calls == calls + FLOOD).then_some(()));
    signal(server, "-CONT");
    for thread in threads {
        thread.join().unwrap().unwrap();
    }
    quiet.join().unwrap().unwrap() - served
}

#[test]
fn a_flood_delays_anothers_call_by_its_share() {
    let _watchdog = Watchdog::new("a_flood_delays_anothers_call_by_its_share");
    let &[near, far, ..] = cpu::allowed().unwrap().as_slice() else {
        skip!("on one CPU each client's calls are served on its own processor");
    };
    // Without this, each client would donate its own processor elsewhere, and nothing would be
    // shared.
    let server = ServerProcess::start_with(SERVER, &Room::name("fair"), "probe", |command| {
        command.env("UNDERPASS_TEST_CPU", far.to_string());
    });
    cpu::confine(&[near]).unwrap();
    let [flood, other] =
        [(); 2].map(|()| ProbeClient::import_apart(server.name(), ServerProcess::soon()).unwrap());
    let before: Vec<_> = (0..ROUNDS).map(|_| served_before(&server, &flood, &other)).collect();
    assert!(before.iter().all(|&calls| calls <= SHARE * SERVING), "served before the other's: {before:?}");
}

/// How many calls each of the clients made to a server of the lowest priority, beside busy CPUs.
fn calls_of_each(server: &str) -> Vec<u64> {
    const CLIENTS: usize = 4;
    const SPAN: Duration = Duration::from_secs(2);
    let over = AtomicBool::new(false);
    let (cpus, over) = (cpu::allowed().unwrap(), &over);
    std::thread::scope(|scope| {
        for &cpu in &cpus {
            scope.spawn(move || {
                cpu::confine(&[cpu]).unwrap();
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let client = ProbeClient::import_apart(server, ServerProcess::soon()).unwrap();
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        client.null().unwrap();
                    }
                    client.counters().calls
                })
            })
            .collect();
        // Nothing waits for this: it is how long the clients are watched.
        std::thread::sleep(SPAN);
        over.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    })
}

/// Over a Unix socket the kernel serves the clients in turn. A thread that yields at a low priority
/// loses the CPU for a hundred slices. So the client that the server polled for would have hundreds
/// of times as many calls.
#[test]
fn a_server_of_low_priority_serves_its_clients_evenly() {
    const TRIES: usize = 6;
    let _watchdog = Watchdog::new("a_server_of_low_priority");
    let name = Room::name("low");
    let mut command = Command::new("nice");
    command.args(["-n", "19", SERVER, &name, "probe"]);
    let _server = ServerProcess::run(command, &name);
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        let calls = calls_of_each(&name);
        let even = calls.iter().max() < calls.iter().min().map(|least| 4 * least).as_ref();
        seen.push(calls);
        if even {
            println!("{seen:?}");
            return;
        }
    }
    panic!("some client has more than four times another's calls: {seen:?}");
}
