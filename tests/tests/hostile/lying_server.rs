//! A server that writes whatever it likes into all that it shares with its clients, while an honest one serves the same domain.

use crate::honest::{beside, reference};
use crate::liar::{Liar, Numbers, mutations};
use crate::{SERVER, Scene};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use underpass::{CallError, thread};
use underpass_tests::{Probe, ProbeClient, Room, ServerProcess, Watchdog};

/// Most outcomes that a server may tell are `Done`.
const OUTCOMES: [u16; 9] = [0, 0, 0, 0, 0, 1, 2, 3, 4];

/// Calls until the binding is over: it was closed, or each of its slots waits for an answer that doesn't come.
fn lied_to(client: &ProbeClient, lies: &AtomicU32) {
    let client = client.with_deadline(Duration::from_millis(1));
    for round in 0.. {
        let result = match round % 5 {
            0 => client.null(),
            1 => client.add(1, 2).map(drop),
            2 => client.echo(&[round as u8; 100]).map(drop),
            3 => client.fill(10).map(drop),
            _ => client.count(&vec![1; round % 100_000]).map(drop),
        };
        match result {
            Ok(()) => {}
            Err(CallError::ProtocolViolation(_)) => {
                lies.fetch_add(1, Ordering::Relaxed);
                return;
            }
            // It was closed by either side, or the server holds too many of its slots.
            Err(CallError::PeerDied(_) | CallError::Closed(_) | CallError::Revoked(_)) => return,
            Err(CallError::Captured(_) | CallError::Overloaded) => return,
            Err(_) => {}
        }
    }
}

#[test]
fn an_honest_server_serves_while_another_writes_at_random() {
    let limit = Duration::from_secs(if underpass_tests::long() { 3600 } else { 120 });
    let _watchdog = Watchdog::within("an_honest_server_serves_while_another_writes_at_random", limit);
    let scene = Scene::new("random-server");
    let server = ServerProcess::start(SERVER, &Room::name("random-honest"), "probe");
    let import = || ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    let honest = [import(), import()];
    let other = import();
    let reference = reference(&honest, &other);
    let (over, lies) = (AtomicBool::new(false), AtomicU32::new(0));
    let mut numbers = Numbers(0x11a7);
    let (beside_it, (bindings, done)) = beside(&honest, || {
        std::thread::scope(|scope| {
            // The victims: a kernel thread, and a user-level one.
            let victim = || {
                while !over.load(Ordering::Relaxed) {
                    // The liar is slow to answer, or has done its work.
                    if let Ok(client) = ProbeClient::import(&scene.name) {
                        lied_to(&client, &lies);
                    }
                }
            };
            scope.spawn(victim);
            scope.spawn(move || thread::scope(|scope| drop(scope.spawn(victim))));
            let given = lie(&scene, &mut numbers, &lies);
            over.store(true, Ordering::Relaxed);
            // Who has just connected is sent off.
            while let Ok(socket) = scene.listening.accept() {
                socket.hang_up();
            }
            given
        })
    });
    assert!(beside_it.calls() > 0);
    let lies = lies.into_inner();
    println!(
        "a lying server: {done} mutations over {bindings} bindings, {lies} closed for a violation; of each honest client's calls of 40 bytes"
    );
    println!("{reference}");
    println!("  beside the liar: {}", beside_it.told());
    assert!(honest.iter().all(|honest| honest.pid() == Ok(server.pid())));
    drop((honest, other, server));
    scene.is_unharmed();
}

/// Serves one client after the other; gives how many, and how many mutations there were.
fn lie(scene: &Scene, numbers: &mut Numbers, lies: &AtomicU32) -> (u32, u32) {
    let (mut bindings, mut done) = (0, 0);
    // As long as it takes for some lies to be found out.
    while done < mutations() || lies.load(Ordering::Relaxed) <= 10 {
        let Some(end) = scene.bind_if_wanted() else {
            std::thread::yield_now();
            continue;
        };
        bindings += 1;
        let mut liar = Liar::new(end, numbers, &OUTCOMES, true);
        for n in 1.. {
            liar.mutate();
            done += 1;
            if n % 8 == 0 && (liar.hear() || n > 4000) {
                break;
            }
            // Whom it lies to runs on the same processors. Rarely: where many are ready it takes long to come back.
            if n % 512 == 0 {
                std::thread::yield_now();
            }
        }
        liar.ends();
    }
    (bindings, done)
}
