//! What becomes of messages, and of everyone else, when a process dies or stops.

use super::process;
use super::{Note, own};
use underpass::port::{Arrival, PortOptions, PortSendError, PortSender, WhyEnded};
use underpass_tests::{Room, Watchdog, cont, stop, until};

#[test]
fn what_a_dead_sender_had_posted_is_delivered() {
    let _watchdog = Watchdog::new("what_a_dead_sender_had_posted_is_delivered");
    let port = own("dead-sender", PortOptions::new().messages(100).longest(64));
    let mut sender = process::sender(&port.name, 1);
    sender.ask("send 30 8");
    sender.kill();
    let (numbers, ended) = port.ended();
    assert_eq!(numbers, (0..30).collect::<Vec<_>>());
    assert_eq!((ended.why, ended.messages), (WhyEnded::PeerDied, 30));
}

#[test]
fn a_sender_that_dies_in_mid_send_holds_nobody_up() {
    let _watchdog = Watchdog::new("a_sender_that_dies_in_mid_send_holds_nobody_up");
    let port = own("mid-send", PortOptions::new().messages(10).longest(64));
    let (mut bad, mut good) = (process::sender(&port.name, 1), process::sender(&port.name, 1));
    bad.ask("send 3 8");
    assert_eq!(bad.ask("reserve"), "reserved");
    good.begin("send 100 8");
    let mut of_bad = Vec::new();
    let mut of_good = 0;
    while of_good < 100 {
        let came = port.message();
        match came.message.1.len() {
            _ if came.from.lane() == 1 => of_bad.push(came.message.0),
            _ => of_good += 1,
        }
    }
    assert_eq!(good.hear(), "sent 100");
    bad.kill();
    let (rest, ended) = port.ended();
    of_bad.extend(rest);
    assert_eq!((of_bad, ended.why, ended.messages), (vec![0, 1, 2], WhyEnded::PeerDied, 3));
    good.ask("send 1 8");
    assert_eq!(port.message().message.0, 100);
}

#[test]
fn a_sender_that_is_stopped_in_mid_send_holds_nobody_up() {
    let _watchdog = Watchdog::new("a_sender_that_is_stopped_in_mid_send_holds_nobody_up");
    let port = own("stopped", PortOptions::new().messages(10).longest(64));
    let (mut bad, mut good) = (process::sender(&port.name, 1), process::sender(&port.name, 1));
    assert_eq!(bad.ask("flood"), "flooding");
    (0..50).for_each(|number| assert_eq!(port.message().message.0, number));
    stop(bad.pid());
    good.begin("send 100 8");
    let (mut of_bad, mut of_good) = (50, 0);
    while of_good < 100 {
        let came = port.message();
        if came.from.lane() == 1 {
            assert_eq!(came.message.0, of_bad);
            of_bad += 1;
        } else {
            assert_eq!(came.message.0, of_good);
            of_good += 1;
        }
    }
    assert_eq!(good.hear(), "sent 100");
    cont(bad.pid());
    (of_bad..of_bad + 100).for_each(|number| assert_eq!(port.message().message.0, number));
}

/// Sends to an owner that takes `taken` messages and dies. Returns the numbers that come back.
fn to_a_dead_owner(of: &str, taken: u64, sent: u64) -> Vec<u64> {
    Room::directory();
    let name = Room::name(of);
    let mut owner = process::owner(&name, 64, None);
    let sender = PortSender::<Note>::connect(&name).unwrap();
    for number in 0..sent {
        assert_eq!(sender.send(&(number, vec![number as u8; 9])), Ok(number));
    }
    if taken > 0 {
        let numbers: Vec<_> = (0..taken).map(|number| number.to_string()).collect();
        assert_eq!(owner.ask(&format!("take {taken}")), format!("took {}", numbers.join(" ")));
    }
    assert!(sender.unreceived().is_empty(), "the lane has not ended");
    owner.kill();
    assert_eq!(until("the end of the lane", || sender.ended()), WhyEnded::PeerDied);
    assert_eq!(sender.send(&(0, vec![])), Err(PortSendError::Disconnected));
    let _ = std::fs::remove_file(Room::directory().join(&name));
    let back = sender.unreceived();
    assert!(back.iter().all(|(number, note)| *note == (*number, vec![*number as u8; 9])));
    back.into_iter().map(|(number, _)| number).collect()
}

#[test]
fn what_a_dead_owner_has_not_received_comes_back() {
    let _watchdog = Watchdog::new("what_a_dead_owner_has_not_received_comes_back");
    for (taken, sent) in [(0, 0), (0, 5), (5, 5), (17, 64)] {
        let back = to_a_dead_owner(&format!("dead-owner-{taken}-{sent}"), taken, sent);
        assert_eq!(back, (taken..sent).collect::<Vec<_>>(), "the ledgers agree");
    }
}

#[test]
fn an_owner_that_is_killed_at_any_moment_has_received_nothing_that_comes_back() {
    let _watchdog =
        Watchdog::new("an_owner_that_is_killed_at_any_moment_has_received_nothing_that_comes_back");
    for round in 0..10_u64 {
        Room::directory();
        let name = Room::name(&format!("any-moment-{round}"));
        let mut owner = process::owner(&name, 16, None);
        let sender = PortSender::<Note>::connect(&name).unwrap();
        owner.begin("take 1000000");
        let sends = std::thread::spawn(move || {
            let mut number = 0;
            while sender.send(&(number, vec![])).is_ok() {
                number += 1;
            }
            (sender, number)
        });
        until("some messages", || (underpass_tests::ticks_of(owner.pid()) > round / 3).then_some(()));
        owner.kill();
        let (sender, sent) = sends.join().unwrap();
        let back: Vec<_> = sender.unreceived().into_iter().map(|(number, _)| number).collect();
        let first = sent - back.len() as u64;
        assert!(back.len() <= 16);
        assert_eq!(back, (first..sent).collect::<Vec<_>>(), "they are the last ones, without a gap");
        let _ = std::fs::remove_file(Room::directory().join(&name));
    }
}

#[test]
fn a_sender_that_is_killed_at_any_moment_loses_nothing_that_it_had_posted() {
    let _watchdog = Watchdog::new("a_sender_that_is_killed_at_any_moment_loses_nothing_that_it_had_posted");
    let port = own("any-moment-sender", PortOptions::new().messages(16).longest(64));
    for round in 1..=10 {
        let mut sender = process::sender(&port.name, 1);
        assert_eq!(sender.ask("flood"), "flooding");
        let before = round * 100;
        (0..before).for_each(|number| assert_eq!(port.message().message.0, number));
        sender.kill();
        let (rest, ended) = port.ended();
        let all = before + rest.len() as u64;
        assert_eq!(rest, (before..all).collect::<Vec<_>>(), "in order, without a gap");
        assert_eq!((ended.why, ended.messages), (WhyEnded::PeerDied, all));
    }
}

#[test]
fn a_sender_of_a_stopped_owner_waits_no_longer_than_it_wants() {
    let _watchdog = Watchdog::new("a_sender_of_a_stopped_owner_waits_no_longer_than_it_wants");
    Room::directory();
    let name = Room::name("stopped-owner");
    let mut owner = process::owner(&name, 4, None);
    let sender = PortSender::<Note>::connect(&name).unwrap();
    owner.begin("take 6");
    stop(owner.pid());
    let mut sent = 0;
    while sender.try_send(&(sent, vec![])).is_ok() {
        sent += 1;
    }
    assert!(sent >= 4, "there is room for four");
    assert_eq!(sender.try_send(&(sent, vec![])), Err(PortSendError::Full));
    let late = sender.send_timeout(&(sent, vec![]), std::time::Duration::from_millis(1));
    assert_eq!(late, Err(PortSendError::Timeout));
    cont(owner.pid());
    (sent..6).for_each(|number| assert!(sender.send(&(number, vec![])).is_ok()));
    assert_eq!(owner.hear(), "took 0 1 2 3 4 5");
    let _ = std::fs::remove_file(Room::directory().join(&name));
}

#[test]
fn a_sender_that_waits_for_room_learns_of_the_owners_end() {
    let _watchdog = Watchdog::new("a_sender_that_waits_for_room_learns_of_the_owners_end");
    let port = own("no-room", PortOptions::new().messages(4).longest(64));
    let mut sender = process::sender(&port.name, 1);
    assert_eq!(sender.ask("flood"), "flooding");
    until("a full lane", || (port.receiver.pressure().queued == 4).then_some(()));
    drop(port.receiver);
    assert_eq!(sender.hear(), "Disconnected");
    assert_eq!(sender.ask("ended"), "Finished");
}

#[test]
fn threads_that_wait_for_room_all_learn_of_the_owners_death() {
    let _watchdog = Watchdog::new("threads_that_wait_for_room_all_learn_of_the_owners_death");
    Room::directory();
    let name = Room::name("dead-for-all");
    let mut owner = process::owner(&name, 4, None);
    let sender = PortSender::<Note>::connect(&name).unwrap();
    (0..4).for_each(|number| assert_eq!(sender.try_send(&(number, vec![])), Ok(number)));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let sender = sender.clone();
            std::thread::spawn(move || sender.send(&(9, vec![])))
        })
        .collect();
    owner.kill();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), Err(PortSendError::Disconnected));
    }
    assert_eq!(sender.unreceived().len(), 4);
    let _ = std::fs::remove_file(Room::directory().join(&name));
}

#[test]
fn a_revoked_sender_ends_and_no_other_does() {
    let _watchdog = Watchdog::new("a_revoked_sender_ends_and_no_other_does");
    let port = own("revoked", PortOptions::new().messages(10).longest(64));
    let (mut bad, mut good) = (process::sender(&port.name, 1), process::sender(&port.name, 1));
    bad.ask("send 3 8");
    let bindings = port.running.bindings();
    assert_eq!(bindings.list().len(), 2, "it is counted as interfaces are");
    let first = port.message();
    assert_eq!(bindings.revoke(|binding| binding.id() == first.from.binding()), 1);
    let (numbers, ended) = port.ended();
    assert_eq!((numbers, ended.why, ended.from), (vec![1, 2], WhyEnded::Revoked, first.from));
    assert_eq!((bad.ask("ended"), bad.ask("try")), ("Revoked".to_owned(), "Disconnected".to_owned()));
    good.ask("send 1 8");
    let Arrival::Message(came) = port.receiver.recv().unwrap() else { panic!("a message") };
    assert_ne!(came.from, first.from);
}
