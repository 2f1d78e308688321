//! What a client gives: callbacks.

use crate::values::{given_to, vault, vault_with};
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use underpass::{CallError, Outcome};
use underpass_tests::{
    Adds, PingPong, PingPongClient, Player, Sink, SinkClient, Vault, Watchdog, Watched, until,
};

fn sink(by: u64) -> SinkClient {
    SinkClient::new(Adds { by, ..Adds::default() })
}

#[test]
fn a_server_calls_back_while_calls_are_under_way() {
    let _watchdog = Watchdog::new("a_server_calls_back_while_calls_are_under_way");
    let (_server, vault) = vault("callback");
    let adds = Adds { by: 5, ..Adds::default() };
    let told = adds.told.clone();
    let sink = SinkClient::new(adds);
    assert_eq!(vault.call_back(&sink, 1), Ok(6));
    assert_eq!(vault.watch(sink), Ok(1));
    assert_eq!(vault.publish(10), Ok(15));
    assert_eq!(told.load(Ordering::SeqCst), 2);
    let player = vault.player().unwrap();
    assert_eq!(player.play(PingPongClient::new(Player), 20), Ok(21));
    let game =
        |player: PingPongClient| move || assert_eq!(player.play(PingPongClient::new(Player), 9), Ok(10));
    let plain: Vec<_> = (0..2).map(|_| std::thread::spawn(game(player.clone()))).collect();
    let own: Vec<_> = (0..8).map(|_| underpass::thread::spawn(game(player.clone()))).collect();
    plain.into_iter().for_each(|thread| thread.join().unwrap());
    own.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn callbacks_carry_large_arguments_and_results() {
    let _watchdog = Watchdog::new("callbacks_carry_large_arguments_and_results");
    let (server, vault) = vault("sizes");
    let mut file = tempfile();
    file.write_all(b"seven..").unwrap();
    let mut sum = 0;
    for (count, length) in [(1, 0), (1, 20), (3, 100), (20, 40_000), (2, 300_000)] {
        for with_file in [false, true] {
            let file = with_file.then(|| file.try_clone().unwrap());
            let text = "x".repeat(length);
            let sinks = (0..count).map(sink).collect();
            let bytes = length as u64 + if with_file { 7 } else { 0 };
            let expected = count * bytes + (0..count).sum::<u64>();
            assert_eq!(vault.watch_all(Watched { file, sinks, text }), Ok(expected), "{count} {length}");
            sum += count;
        }
    }
    assert_eq!(given_to(server.pid()) as u64, sum);
    assert_eq!(vault.unwatch(), Ok(sum as u32));
    until("all to be released", || (given_to(server.pid()) == 0).then_some(()));
}

/// A file without a name.
fn tempfile() -> File {
    let path = std::env::temp_dir().join(format!("underpass-values-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

#[test]
fn a_value_that_returns_home_is_the_implementation_itself() {
    let _watchdog = Watchdog::new("a_value_that_returns_home_is_the_implementation_itself");
    let (server, vault) = vault("home");
    let adds = Arc::new(Adds::default());
    let told = adds.told.clone();
    // The server drops the sink when it has given it back, so its release races with the reply.
    for round in 0..200 {
        let by = Adds { by: round, told: told.clone() };
        vault.watch(SinkClient::new(by)).unwrap();
        let home = vault.give_back().unwrap().expect("the one that was kept");
        assert_eq!(home.who_tells(), Ok(std::process::id()), "a direct call");
        assert_eq!((home.tell(1), home.counters().calls), (Ok(1 + round), 0));
        assert!(vault.give_back().unwrap().is_none());
    }
    until("the rows to be released", || (given_to(server.pid()) == 0).then_some(()));
    // The other way: a transaction is the server's own.
    let transaction = vault.begin().unwrap();
    assert_eq!(vault.who_calls(transaction.clone()), Ok(server.pid()));
    assert_eq!(vault.who_calls(transaction), Ok(server.pid()));
    until("it to be dropped", || (vault.transactions() == Ok((0, 1))).then_some(()));
}

#[test]
fn given_interfaces_are_listed_and_revoked() {
    let _watchdog = Watchdog::new("given_interfaces_are_listed_and_revoked");
    let (server, vault) = vault("revoked");
    for by in 0..3 {
        vault.watch(sink(by)).unwrap();
    }
    assert_eq!((given_to(server.pid()), vault.publish(1)), (3, Ok(6)));
    let mut ids: Vec<_> = underpass::given_interfaces()
        .list()
        .iter()
        .filter(|binding| binding.peer().pid() == server.pid())
        .map(|binding| {
            assert_eq!(binding.name(), "Sink");
            binding.id()
        })
        .collect();
    ids.sort_unstable();
    assert_eq!(underpass::given_interfaces().revoke(|binding| binding.id() == ids[1]), 1);
    assert_eq!(vault.publish(1), Err(CallError::Revoked(Outcome::NotStarted)), "as the server sees it");
    assert_eq!(vault.unwatch(), Ok(3));
    until("all to be released", || (given_to(server.pid()) == 0).then_some(()));
    assert_eq!((vault.watch(sink(7)), vault.publish(1)), (Ok(1), Ok(8)), "the connection goes on");
}

#[test]
fn a_call_that_fails_keeps_nothing() {
    let _watchdog = Watchdog::new("a_call_that_fails_keeps_nothing");
    let (server, vault) = vault_with("fails", "vault-few", Some(2));
    let panicked = vault.panic_with(sink(1));
    assert!(matches!(&panicked, Err(CallError::Panicked(why)) if why.contains("after 2")), "{panicked:?}");
    until("the sink to be released", || (given_to(server.pid()) == 0).then_some(()));
    // More than the server lets its client's user have: none is kept.
    let sinks = (0..3).map(sink).collect();
    let refused = vault.watch_all(Watched { file: None, sinks, text: String::new() });
    assert!(matches!(&refused, Err(CallError::NoResources(Outcome::NotStarted, _))), "{refused:?}");
    until("all to be released", || (given_to(server.pid()) == 0).then_some(()));
    // A call that nobody waits for any more when it is taken is not started.
    let hurried = vault.with_deadline(Duration::ZERO);
    for _ in 0..20 {
        assert!(hurried.watch(sink(1)).is_err());
    }
    vault.unwatch().unwrap();
    until("those to be released", || (given_to(server.pid()) == 0).then_some(()));
    assert_eq!((vault.watch(sink(1)), vault.watch(sink(2)), vault.publish(0)), (Ok(1), Ok(2), Ok(3)));
}
