//! A server that writes anything into all that it shares with its clients, while an honest server
//! serves the same domain.

use crate::hostile::end::{DONE, gone, on_the_stack, procedure};
use crate::hostile::honest::{TURNS, Turn, compare};
use crate::hostile::liar::{Liar, Numbers, mutations};
use crate::hostile_server::{SERVER, Scene};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use underpass::{CallError, thread};
use underpass_channel::Cell;
use underpass_harness::alone;
use underpass_tests::{Callers, Probe, ProbeClient, Room, ServerProcess, Watchdog, until};
use underpass_wire::to_bytes;

/// Most outcomes that a server may report are `Done`.
const OUTCOMES: [u16; 11] = [0, 0, 0, 0, 0, 1, 2, 3, 4, 9, 12];

/// Calls until the binding is over: it was closed, or each of its slots waits for an answer that
/// never comes.
fn call(client: &ProbeClient, lies: &AtomicU32) {
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
            // Either side has closed it, or the server holds too many of its slots.
            Err(CallError::PeerDied(_) | CallError::Closed(_) | CallError::Revoked(_)) => return,
            Err(CallError::Captured(_) | CallError::Overloaded) => return,
            Err(_) => {}
        }
    }
}

/// The result of `serve`, while two clients call over one binding after another: a kernel thread
/// and a user-level thread.
fn served<R>(scene: &Scene, lies: &AtomicU32, serve: impl FnOnce() -> R) -> R {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let client = || {
            while !over.load(Ordering::Relaxed) {
                // The server is slow to answer, or has finished.
                if let Ok(client) = ProbeClient::import(&scene.name) {
                    call(&client, lies);
                }
            }
        };
        let clients =
            [scope.spawn(client), scope.spawn(move || thread::scope(|scope| drop(scope.spawn(client))))];
        let given = serve();
        over.store(true, Ordering::Relaxed);
        // A client that connects once more is refused.
        until("the clients to leave", || {
            if let Ok(socket) = scene.listening.accept() {
                socket.hang_up();
            }
            clients.iter().all(|client| client.is_finished()).then_some(())
        });
        given
    })
}

/// Answers calls over one binding while it `lasts`, and yields as often as a liar does.
fn answer(scene: &Scene, lasts: &dyn Fn() -> bool) {
    let results = [
        ("null", vec![0]),
        ("add", vec![0, 3]),
        ("echo", [&[0][..], &to_bytes(&[7u8; 100][..])].concat()),
        ("fill", [&[0][..], &to_bytes(&[7u8; 10][..])].concat()),
        ("count", [&[0][..], &to_bytes(&1u64)].concat()),
    ];
    let results = results.map(|(name, result)| (procedure(name), result));
    let end = loop {
        if let Some(end) = scene.bind_if_wanted() {
            break end;
        }
        if !lasts() {
            return;
        }
        std::thread::yield_now();
    };
    for n in 1.. {
        if !lasts() || gone(&end.socket) {
            return;
        }
        while let Some(call) = end.take() {
            let of_it = results.iter().find(|(procedure, _)| *procedure == call.what());
            let (_, result) = of_it.expect("a procedure that is called");
            match Cell::inline(call.slot(), DONE, result) {
                Some(reply) => end.post(&reply),
                None => {
                    end.fill_stack(call.slot(), result);
                    end.post(&on_the_stack(call.slot(), DONE, result.len() as u32));
                }
            }
        }
        if n % 512 == 0 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn an_honest_server_serves_while_another_writes_at_random() {
    alone!();
    let limit = Duration::from_secs(if underpass_tests::long() { 3600 } else { 120 });
    let _watchdog = Watchdog::within("an_honest_server_serves_while_another_writes_at_random", limit);
    let scene = Scene::new("random-server");
    let server = ServerProcess::start(SERVER, &Room::name("random-honest"), "probe");
    let honest = Callers::import(server.name());
    let mut numbers = Numbers(0x11a7);
    let (mut bindings, mut done, mut closed) = (0, 0, 0);
    let lie = || {
        let lies = AtomicU32::new(0);
        let (served, lied) = served(&scene, &lies, || lie(&scene, &mut numbers, &lies));
        bindings += served;
        done += lied;
        closed += lies.into_inner();
        served
    };
    let busy = |turn: &Turn| {
        let lies = AtomicU32::new(0);
        served(&scene, &lies, || turn.spend(|lasts| answer(&scene, lasts)));
        assert_eq!(lies.into_inner(), 0, "an honest server does not lie");
    };
    let compared = compare(|meanwhile| honest.beside(meanwhile), lie, busy);
    compared.assert_served(&format!(
        "a lying server: {done} mutations over {bindings} bindings, {closed} closed for a violation"
    ));
    assert_eq!(honest.server(), Ok(Some(server.pid())));
    drop((honest, server));
    scene.is_unharmed();
}

/// Serves one client after another. Returns the number of clients, and the number of mutations.
fn lie(scene: &Scene, numbers: &mut Numbers, lies: &AtomicU32) -> (u32, u32) {
    let (mut bindings, mut done) = (0, 0);
    // Until a lie is found, however long that takes.
    while done < mutations() / TURNS || lies.load(Ordering::Relaxed) == 0 {
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
            // The client that it lies to runs on the same processors. It yields rarely: where many
            // threads are ready, it takes long to run again.
            if n % 512 == 0 {
                std::thread::yield_now();
            }
        }
        liar.ends();
    }
    (bindings, done)
}
