//! The results of calls that tasks make.

use crate::asynchronous::executors::{Executor, on_each};
use std::time::Duration;
use underpass::{CallError, Outcome};
use underpass_tests::{Probe, ProbeClient, Room, ServerProcess, Shape, Trouble, Watchdog};

pub const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

pub fn serve(name: &str) -> (ServerProcess, ProbeClient) {
    let server = ServerProcess::start(SERVER, &Room::name(name), "probe");
    let client = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    (server, client)
}

#[test]
fn tasks_get_what_procedures_return() {
    let _watchdog = Watchdog::new("tasks_get_what_procedures_return");
    let (_server, client) = serve("async-results");
    on_each(async |_| {
        assert_eq!(client.add_async(2, 3).await, Ok(5));
        for len in [0, 7, 48, 49, 4_000, 40_000, 300_000] {
            let bytes = vec![len as u8; len];
            assert_eq!(client.echo_async(&bytes).await, Ok(bytes));
        }
        let shapes = [Shape::Circle(1.5), Shape::Nothing];
        assert_eq!(client.shapes_async(&shapes, "two").await, Ok((shapes.to_vec(), "two".to_owned())));
        assert_eq!(client.refuse_async("so").await, Err(Trouble::Refused { why: "so".to_owned() }));
        assert_eq!(client.panic_async("oh").await, Err(CallError::Panicked("oh".to_owned())));
        client.nap_async(5).await.unwrap();
    });
    assert_eq!(client.add(2, 3), Ok(5), "a thread's calls go over the same binding");
}

#[test]
fn more_tasks_than_slots_have_their_turn() {
    let _watchdog = Watchdog::new("more_tasks_than_slots_have_their_turn");
    let (_server, client) = serve("async-many");
    on_each(|executor: Executor| {
        let client = client.clone();
        async move {
            let tasks: Vec<_> = (0..200u32)
                .map(|task| {
                    let client = client.clone();
                    executor.spawn(async move {
                        for n in 0..40u32 {
                            if (task + n) % 10 == 0 {
                                client.nap_async(1).await.unwrap();
                            }
                            let bytes = [task.to_le_bytes(), n.to_le_bytes()].concat();
                            assert_eq!(client.echo_async(&bytes).await, Ok(bytes));
                        }
                    })
                })
                .collect();
            for task in tasks {
                assert_eq!(task.recv().await, Ok(()), "a task panicked under {}", executor.name);
            }
        }
    });
}

#[test]
fn tasks_and_threads_share_a_binding() {
    let _watchdog = Watchdog::new("tasks_and_threads_share_a_binding");
    let (_server, client) = serve("async-mixed");
    on_each(|executor: Executor| {
        let client = client.clone();
        async move {
            let calls =
                |client: ProbeClient| move || (0..300u32).all(|n| client.nap(u64::from(n % 60 == 0)).is_ok());
            let user: Vec<_> = (0..4).map(|_| underpass::thread::spawn(calls(client.clone()))).collect();
            let kernel: Vec<_> = (0..2).map(|_| std::thread::spawn(calls(client.clone()))).collect();
            let tasks: Vec<_> = (0..8u8)
                .map(|task| {
                    let client = client.clone();
                    executor.spawn(async move {
                        for n in 0..100u8 {
                            assert_eq!(client.add_async(task, n).await, Ok(task + n));
                            client.nap_async(u64::from(n % 50 == 0)).await.unwrap();
                        }
                    })
                })
                .collect();
            for task in tasks {
                assert_eq!(task.recv().await, Ok(()), "a task panicked under {}", executor.name);
            }
            user.into_iter().for_each(|thread| assert!(thread.join().unwrap()));
            kernel.into_iter().for_each(|thread| assert!(thread.join().unwrap()));
        }
    });
}

#[test]
fn a_deadline_needs_no_timer_of_the_executor() {
    let _watchdog = Watchdog::new("a_deadline_needs_no_timer_of_the_executor");
    let (_server, client) = serve("async-deadline");
    on_each(async |_| {
        let hasty = client.with_deadline(Duration::from_millis(20));
        let late = hasty.nap_async(3_600_000).await.unwrap_err();
        assert!(matches!(late, CallError::Deadline(_)), "{late}");
        assert_eq!(client.add_async(1, 2).await, Ok(3));
    });
}

#[test]
fn tasks_that_wait_for_a_slot_give_up_in_time() {
    let _watchdog = Watchdog::new("tasks_that_wait_for_a_slot_give_up_in_time");
    on_each(|executor: Executor| async move {
        let (mut server, client) = serve("async-overload");
        // Over a connection of its own, as a row of several has half of the slots.
        let other = ProbeClient::import_apart(server.name(), ServerProcess::soon()).unwrap();
        let before = other.arrived_async().await.unwrap();
        let calls: Vec<_> = (0..64)
            .map(|_| {
                let client = client.clone();
                executor.spawn(async move { client.nap_async(3_600_000).await })
            })
            .collect();
        // Each may need one poll for it.
        while client.counters().calls < 64 {
            smol::future::yield_now().await;
        }
        // The server has taken all of them, so none is *not started* when it dies.
        while other.arrived_async().await.unwrap() - before < 64 * size_of::<u64>() as u64 {
            smol::future::yield_now().await;
        }
        let hasty = client.with_deadline(Duration::from_millis(20));
        assert_eq!(hasty.add_async(1, 2).await, Err(CallError::Overloaded));
        let waits: Vec<_> = (0..10)
            .map(|_| {
                let client = client.clone();
                executor.spawn(async move { client.add_async(1, 2).await })
            })
            .collect();
        server.kill();
        for call in calls {
            assert_eq!(call.recv().await, Ok(Err(CallError::PeerDied(Outcome::Unknown))));
        }
        for wait in waits {
            assert_eq!(wait.recv().await, Ok(Err(CallError::PeerDied(Outcome::NotStarted))));
        }
        assert_eq!(client.add_async(1, 2).await, Err(CallError::PeerDied(Outcome::NotStarted)));
    });
}

#[test]
fn tasks_lend_no_processor_to_a_server_that_has_none() {
    let _watchdog = Watchdog::new("tasks_lend_no_processor_to_a_server_that_has_none");
    // Such a server still has one processor for what no thread's call runs.
    let server = ServerProcess::start_with(SERVER, &Room::name("async-lent"), "probe", |command| {
        command.env("UNDERPASS_PROCESSORS", "0");
    });
    let client = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    on_each(|executor: Executor| {
        let client = client.clone();
        async move {
            let tasks: Vec<_> = (0..8u8)
                .map(|task| {
                    let client = client.clone();
                    executor.spawn(async move {
                        for n in 0..50u8 {
                            assert_eq!(client.add_async(task, n).await, Ok(task + n));
                            client.nap_async(u64::from(n % 10 == 0)).await.unwrap();
                        }
                    })
                })
                .collect();
            for task in tasks {
                assert_eq!(task.recv().await, Ok(()), "a task panicked under {}", executor.name);
            }
            assert_eq!(client.counters().donations_given, 0, "by tasks under {}", executor.name);
        }
    });
}
