//! Calls between two processes.

use std::sync::Arc;
use underpass::{CallError, thread};
use underpass_tests::{Probe, ProbeClient, Room, ServerProcess, Subject, Trouble, Watchdog};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

fn server(of: &str) -> (ServerProcess, ProbeClient) {
    let server = ServerProcess::start(SERVER, &Room::name(of), "probe");
    let client =
        ProbeClient::import_within(server.name(), ServerProcess::soon()).expect("the test server answers");
    (server, client)
}

#[test]
fn a_call_reaches_the_other_process() {
    let _watchdog = Watchdog::new("a_call_reaches_the_other_process");
    let (server, client) = server("reach");
    assert_eq!(client.pid(), Ok(server.pid()));
    assert_eq!(client.add(40, 2), Ok(42));
    assert_eq!(client.null(), Ok(()));
}

#[test]
fn code_for_the_trait_runs_in_one_process_or_two() {
    fn sum(of: &impl Probe) -> u8 {
        (0..10).map(|i| of.add(i, i).unwrap()).sum()
    }
    let _watchdog = Watchdog::new("code_for_the_trait_runs_in_one_process_or_two");
    let (_server, client) = server("generic");
    assert_eq!(sum(&client), sum(&Subject::default()));
}

#[test]
fn an_import_of_an_own_export_is_a_direct_call() {
    let _watchdog = Watchdog::new("an_import_of_an_own_export_is_a_direct_call");
    let name = Room::name("own");
    let _running = underpass::Server::new().export(&name, Probe::serve(Subject::default())).start().unwrap();
    let client = ProbeClient::import(&name).unwrap();
    assert_eq!(client.pid(), Ok(std::process::id()));
    assert_eq!(client.counters().calls, 0, "a direct call goes through no channel");
}

#[test]
fn arguments_of_any_size_arrive() {
    let _watchdog = Watchdog::new("arguments_of_any_size_arrive");
    let (_server, client) = server("sizes");
    // Sizes around the limits of the cell, of the A-stack, and of the chunks in which larger
    // messages travel.
    for size in [0, 1, 38, 39, 40, 46, 47, 48, 49, 32_750, 32_766, 32_767, 32_768, 32_769, 65_536, 1_000_003]
    {
        let bytes: Vec<u8> = (0..size).map(|i| (i * 31) as u8).collect();
        assert_eq!(client.echo(&bytes).unwrap(), bytes, "{size} bytes");
        assert_eq!(client.fill(size as u64).unwrap().len(), size);
    }
}

#[test]
fn a_gibibyte_arrives() {
    let _watchdog = Watchdog::new("a_gibibyte_arrives");
    let (_server, client) = server("gib");
    let bytes = vec![7u8; 1 << 30];
    assert_eq!(client.count(&bytes), Ok(1 << 30));
    drop(bytes);
    assert_eq!(client.null(), Ok(()));
}

#[test]
fn user_threads_call_at_once() {
    let _watchdog = Watchdog::new("user_threads_call_at_once");
    let (_server, client) = server("user");
    let threads: Vec<_> = (0..100u8)
        .map(|i| {
            let client = client.clone();
            thread::spawn(move || {
                for n in 0..200u8 {
                    assert_eq!(client.add(i, n), Ok(i.wrapping_add(n)));
                    if n % 50 == 0 {
                        let bytes = vec![i; 5_000];
                        assert_eq!(client.echo(&bytes).unwrap(), bytes);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(client.counters().calls, 100 * 204);
}

#[test]
fn kernel_threads_call_at_once() {
    let _watchdog = Watchdog::new("kernel_threads_call_at_once");
    let (_server, client) = server("kernel");
    std::thread::scope(|scope| {
        for i in 0..16u8 {
            let client = &client;
            scope.spawn(move || {
                for n in 0..200u8 {
                    assert_eq!(client.add(i, n), Ok(i.wrapping_add(n)));
                }
            });
        }
    });
}

#[test]
fn both_kinds_of_threads_call_at_once() {
    let _watchdog = Watchdog::new("both_kinds_of_threads_call_at_once");
    let (_server, client) = server("both");
    let user: Vec<_> = (0..8)
        .map(|_| {
            let client = client.clone();
            thread::spawn(move || (0..300).for_each(|_| client.null().unwrap()))
        })
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..300).for_each(|_| client.null().unwrap()));
        }
    });
    user.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn a_full_channel_makes_callers_wait() {
    let _watchdog = Watchdog::new("a_full_channel_makes_callers_wait");
    let (_server, client) = server("full");
    // Twice as many callers as slots. Each of the first 64 calls blocks in the server until 64 have
    // come.
    let threads: Vec<_> = (0..128)
        .map(|_| {
            let client = client.clone();
            thread::spawn(move || client.meet(64))
        })
        .collect();
    threads.into_iter().for_each(|t| assert_eq!(t.join().unwrap(), Ok(())));
}

#[test]
fn a_full_channel_overloads_a_caller_that_will_not_wait() {
    let _watchdog = Watchdog::new("a_full_channel_overloads_a_caller_that_will_not_wait");
    let (_server, client) = server("over");
    let threads: Vec<_> = (0..64)
        .map(|_| {
            let client = client.clone();
            thread::spawn(move || client.meet(65))
        })
        .collect();
    // Before the channel is full, some calls of this client are in progress that nobody waits for.
    client.quarantine(64);
    let hasty = client.with_deadline(std::time::Duration::from_millis(1));
    underpass_tests::until("the channel to be full", || {
        let failed = hasty.nap(10_000).unwrap_err();
        (failed == CallError::Overloaded).then_some(())
    });
    drop(client);
    // Another binding releases the waiting calls. It has a connection of its own, since they may
    // hold all slots of theirs.
    let other = ProbeClient::import_apart(_server.name(), ServerProcess::soon()).unwrap();
    underpass_tests::until("all to meet", || {
        other.meet(0).unwrap();
        threads.iter().all(|t| t.is_finished()).then_some(())
    });
}

#[test]
fn a_handler_may_block_while_others_are_served() {
    let _watchdog = Watchdog::new("a_handler_may_block_while_others_are_served");
    let (_server, client) = server("block");
    let slow = client.clone();
    let sleeper = thread::spawn(move || slow.meet(2));
    for _ in 0..100 {
        assert_eq!(client.null(), Ok(()));
    }
    assert_eq!(client.meet(2), Ok(()));
    assert_eq!(sleeper.join().unwrap(), Ok(()));
}

#[test]
fn a_handler_may_call_back() {
    let _watchdog = Watchdog::new("a_handler_may_call_back");
    let (_server, client) = server("back");
    let name = Room::name("back-here");
    let _running = underpass::Server::new().export(&name, Probe::serve(Subject::default())).start().unwrap();
    assert_eq!(client.call_back(&name, 1, 2), Ok(3));
    let client = Arc::new(client);
    let threads: Vec<_> = (0..20u8)
        .map(|i| {
            let (client, name) = (client.clone(), name.clone());
            thread::spawn(move || client.call_back(&name, i, 1))
        })
        .collect();
    for (i, thread) in threads.into_iter().enumerate() {
        assert_eq!(thread.join().unwrap(), Ok(i as u8 + 1));
    }
}

#[test]
fn a_panic_is_the_error_of_one_call() {
    let _watchdog = Watchdog::new("a_panic_is_the_error_of_one_call");
    let (_server, client) = server("panic");
    let long = "ä".repeat(5_000);
    for message in ["oh", "", &long] {
        match client.panic(message) {
            Err(CallError::Panicked(told)) => assert!(message.starts_with(&told)),
            other => panic!("{other:?}"),
        }
        assert_eq!(client.add(1, 1), Ok(2));
    }
}

#[test]
fn an_error_of_the_implementation_arrives() {
    let _watchdog = Watchdog::new("an_error_of_the_implementation_arrives");
    let (_server, client) = server("error");
    assert_eq!(client.refuse("not now"), Err(Trouble::Refused { why: "not now".to_owned() }));
}

#[test]
fn a_deadline_frees_the_caller_and_later_the_slot() {
    let _watchdog = Watchdog::new("a_deadline_frees_the_caller_and_later_the_slot");
    let (_server, client) = server("deadline");
    let hasty = client.with_deadline(std::time::Duration::from_millis(1));
    let mut late = 0;
    for _ in 0..200 {
        // More calls than slots. Each slot is free again when its late reply comes.
        match hasty.nap(3) {
            Err(CallError::Deadline(_)) => late += 1,
            // This process itself may be late, or faster than its slots come back.
            Ok(()) | Err(CallError::Overloaded) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(late > 0);
    assert_eq!(client.add(1, 2), Ok(3));
}
