//! Calls that last: they give their slots back, and are answered late. The server is a process of
//! its own.

use crate::asynchronous::callers::SERVER;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;
use underpass::{Abandon, CallError, Outcome};
use underpass_tests::{Room, ServerProcess, Slow, SlowClient, Watchdog, all, call_slowly, until};

/// More than a channel has slots.
const MANY: u32 = 300;

fn serve(of: &str) -> (ServerProcess, SlowClient) {
    let server = ServerProcess::start(SERVER, &Room::name(of), "slow");
    let client = SlowClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    (server, client)
}

/// Waits until so many calls wait at the server's gate.
fn until_waiting(client: &SlowClient, count: u32) {
    until("the calls to wait", || (client.waiting().unwrap().0 == count).then_some(()));
}

#[test]
fn short_calls_pass_hundreds_of_slow_ones() {
    let _watchdog = Watchdog::new("short_calls_pass_hundreds_of_slow_ones");
    let (_server, client) = serve("late-slow");
    call_slowly(&client, MANY).unwrap();
    assert_eq!(client.waiting(), Ok((0, 0)));
}

#[test]
fn threads_of_both_kinds_wait_for_late_answers() {
    let _watchdog = Watchdog::new("threads_of_both_kinds_wait_for_late_answers");
    let (_server, client) = serve("late-threads");
    let call = |id: u32| {
        let client = client.clone();
        move || client.long(id, id * 50) == Ok(vec![id as u8; id as usize * 50])
    };
    let user: Vec<_> = (0..100).map(|id| underpass::thread::spawn(call(id))).collect();
    let kernel: Vec<_> = (0..8).map(|id| std::thread::spawn(call(id))).collect();
    until_waiting(&client, 108);
    assert_eq!(client.short(7), Ok(7));
    client.open(true).unwrap();
    user.into_iter().for_each(|thread| assert!(thread.join().unwrap()));
    kernel.into_iter().for_each(|thread| assert!(thread.join().unwrap()));
}

#[test]
fn hundreds_of_calls_are_given_up_and_the_binding_goes_on() {
    let _watchdog = Watchdog::new("hundreds_of_calls_are_given_up_and_the_binding_goes_on");
    let (_server, client) = serve("late-given-up");
    for _ in 0..3 {
        let abandon = Abandon::new();
        let free = client.abandonable(&abandon);
        let (tell, told) = channel();
        let callers = std::thread::spawn(move || {
            all((0..MANY).map(|id| free.long_async(id, 9)), |_| {
                // The first round has sent the first calls.
                let _ = tell.send(());
            })
        });
        told.recv().unwrap();
        until_waiting(&client, MANY);
        abandon.abandon();
        for given_up in callers.join().unwrap() {
            assert_eq!(given_up, Err(CallError::Abandoned(Outcome::Unknown)));
        }
        // The server has dropped their handlers.
        until_waiting(&client, 0);
        // Threads that are cancelled, and futures that are dropped.
        let waits: Vec<_> = (0..100)
            .map(|id| {
                let client = client.clone();
                underpass::thread::spawn(move || client.long(id, 9))
            })
            .collect();
        until_waiting(&client, 100);
        waits.iter().for_each(|thread| thread.cancel());
        for thread in waits {
            assert_eq!(thread.join().unwrap(), Err(CallError::Cancelled(Outcome::Unknown)));
        }
        until_waiting(&client, 0);
    }
    assert_eq!(client.short(1), Ok(1));
}

#[test]
fn the_handler_of_a_dropped_call_is_dropped() {
    let _watchdog = Watchdog::new("the_handler_of_a_dropped_call_is_dropped");
    let (_server, client) = serve("late-dropped");
    for _ in 0..20 {
        smol::block_on(async {
            let calls = smol::future::or(async { client.long_async(1, 1).await.is_ok() }, async {
                while client.waiting_async().await.unwrap().0 == 0 {}
                false
            });
            assert!(!calls.await, "the gate is shut");
        });
        until_waiting(&client, 0);
    }
}

#[test]
fn the_handler_of_a_call_is_dropped_at_its_deadline() {
    let _watchdog = Watchdog::new("the_handler_of_a_call_is_dropped_at_its_deadline");
    let (_server, client) = serve("late-deadline");
    let hasty = client.with_deadline(Duration::from_millis(50));
    for given_up in all((0..100).map(|id| hasty.long_async(id, 9)), |_| {}) {
        assert!(matches!(given_up, Err(CallError::Deadline(_) | CallError::Overloaded)), "{given_up:?}");
    }
    until_waiting(&client, 0);
    let threads: Vec<_> = (0..20)
        .map(|id| {
            let hasty = hasty.clone();
            underpass::thread::spawn(move || hasty.long(id, 9))
        })
        .collect();
    for thread in threads {
        assert!(matches!(thread.join().unwrap(), Err(CallError::Deadline(_))));
    }
    until_waiting(&client, 0);
    assert_eq!(client.short(1), Ok(1));
}

#[test]
fn whoever_waits_for_the_end_of_the_wish_is_told() {
    let _watchdog = Watchdog::new("whoever_waits_for_the_end_of_the_wish_is_told");
    let (server, client) = serve("late-told");
    let told =
        |count| until("the handlers to be told", || (client.waiting().unwrap().1 == count).then_some(()));
    // At a deadline.
    let hasty = client.with_deadline(Duration::from_millis(20));
    assert!(matches!(hasty.watched(), Err(CallError::Deadline(_))));
    told(1);
    // When the caller gives up.
    let abandon = Abandon::new();
    let free = client.abandonable(&abandon);
    let callers: Vec<_> = (0..10)
        .map(|_| {
            let free = free.clone();
            underpass::thread::spawn(move || free.watched())
        })
        .collect();
    until_waiting(&client, 10);
    abandon.abandon();
    callers.into_iter().for_each(|caller| assert!(caller.join().unwrap().is_err()));
    told(11);
    // When the caller dies.
    let mut doomed = Command::new(SERVER).args([server.name(), "watched"]).spawn().unwrap();
    until_waiting(&client, 1);
    doomed.kill().unwrap();
    doomed.wait().unwrap();
    told(12);
    client.open(true).unwrap();
    assert_eq!(client.watched(), Ok(()));
}

#[test]
fn late_answers_bring_files_and_errors() {
    let _watchdog = Watchdog::new("late_answers_bring_files_and_errors");
    let (_server, client) = serve("late-files");
    let carry = |client: SlowClient| {
        move || {
            let file: OwnedFd = File::open("/dev/null").unwrap().into();
            client.carry(file).map(File::from).is_ok_and(|file| file.metadata().is_ok())
        }
    };
    let carriers: Vec<_> = (0..80).map(|_| underpass::thread::spawn(carry(client.clone()))).collect();
    let panics: Vec<_> = (0..10)
        .map(|_| {
            let client = client.clone();
            underpass::thread::spawn(move || client.panic())
        })
        .collect();
    until_waiting(&client, 90);
    client.open(true).unwrap();
    carriers.into_iter().for_each(|thread| assert!(thread.join().unwrap()));
    for thread in panics {
        assert_eq!(thread.join().unwrap(), Err(CallError::Panicked("after a while".to_owned())));
    }
    // Answers that nobody reads any more bring files too.
    client.open(false).unwrap();
    let abandon = Abandon::new();
    let carriers: Vec<_> =
        (0..80).map(|_| underpass::thread::spawn(carry(client.abandonable(&abandon)))).collect();
    until_waiting(&client, 80);
    abandon.abandon();
    carriers.into_iter().for_each(|thread| assert!(!thread.join().unwrap()));
    until_waiting(&client, 0);
    assert_eq!(client.short(1), Ok(1));
}

#[test]
fn a_server_that_dies_frees_those_who_wait_for_late_answers() {
    let _watchdog = Watchdog::new("a_server_that_dies_frees_those_who_wait_for_late_answers");
    let (mut server, client) = serve("late-death");
    let threads: Vec<_> = (0..100)
        .map(|id| {
            let client = client.clone();
            underpass::thread::spawn(move || client.long(id, 9))
        })
        .collect();
    let other = client.clone();
    let tasks = std::thread::spawn(move || all((0..100).map(|id| other.long_async(id, 9)), |_| {}));
    until_waiting(&client, 200);
    server.kill();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), Err(CallError::PeerDied(Outcome::Unknown)));
    }
    for lost in tasks.join().unwrap() {
        assert_eq!(lost, Err(CallError::PeerDied(Outcome::Unknown)));
    }
    assert_eq!(client.short(1), Err(CallError::PeerDied(Outcome::NotStarted)));
}

#[test]
fn slow_and_short_calls_share_one_processor() {
    let _watchdog = Watchdog::new("slow_and_short_calls_share_one_processor");
    let cpu = underpass_os::cpu::allowed().unwrap()[0].to_string();
    let server = ServerProcess::start_with(SERVER, &Room::name("late-one"), "slow", |command| {
        command.env("UNDERPASS_TEST_CPU", &cpu);
    });
    for _ in 0..3 {
        let mut client = Command::new(SERVER);
        client.args([server.name(), "slowly", "200"]).env("UNDERPASS_TEST_CPU", &cpu);
        assert!(client.status().unwrap().success());
    }
}
