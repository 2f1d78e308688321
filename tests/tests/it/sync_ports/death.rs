//! What becomes of messages, and of everyone else, when a process dies or stops.

use super::process;
use super::{Name, Note, own};
use std::time::Duration;
use underpass::port::sync::{SyncPortOptions, SyncPortSender, SyncSendError};
use underpass::port::{ConnectError, WhyEnded};
use underpass::sync::mpmc;
use underpass::{Outcome, Policy, Server, thread};
use underpass_tests::{Room, Watchdog, cont, stop, until};

#[test]
fn a_dead_sender_leaves_replies_that_nobody_wants() {
    let _watchdog = Watchdog::new("a_dead_sender_leaves_replies_that_nobody_wants");
    Room::directory();
    let name = Room::name("dead-sender");
    let (service, receiver) = SyncPortOptions::new().open::<Note, u64>();
    let (end, ended) = mpmc::unbounded();
    let service = service.on_binding_end(move |binding| end.send(binding.id()).unwrap());
    let _running = Server::new().export(&*name, service).start().unwrap();
    let mut sender = process::sender(&name, None);
    let mut other = process::sender(&name, None);
    assert_eq!(sender.ask("begin 0 5"), "begun");
    until("all messages", || (receiver.queued() == 5).then_some(()));
    let first = receiver.recv().unwrap();
    let from = first.from();
    let (_, parked) = first.take();
    sender.kill();
    until("an unwanted reply", || (!parked.is_wanted()).then_some(()));
    // What it had sent is received, and replied to in vain.
    for number in 1..5 {
        let mut came = receiver.recv().unwrap();
        assert_eq!((came.message().0, came.from()), (number, from));
        came.reply(0);
    }
    other.begin("send 3");
    receiver.recv().unwrap().reply(4);
    assert_eq!(other.hear(), "4");
    assert!(ended.is_empty(), "a reply is left");
    drop(parked);
    assert_eq!(ended.recv(), Ok(from.binding()));
}

#[test]
fn a_dead_owner_is_told_with_what_is_known_of_each_message() {
    let _watchdog = Watchdog::new("a_dead_owner_is_told_with_what_is_known_of_each_message");
    for pause in [0, 5] {
        let name = Name::new(&format!("dead-owner-{pause}"));
        let mut owner = process::owner(&name.0, 8, None);
        let sender = SyncPortSender::<Note, u64>::connect(&name.0).unwrap();
        let taken: Vec<_> = (0..3).map(|number| sender.begin((number, vec![])).unwrap()).collect();
        assert_eq!(owner.ask("park 3"), "parked");
        thread::sleep(Duration::from_millis(pause));
        stop(owner.pid());
        let untaken = sender.begin((3, vec![])).unwrap();
        owner.kill();
        for pending in taken {
            let died = SyncSendError::Disconnected(WhyEnded::PeerDied, Outcome::Unknown);
            assert_eq!(pending.wait(), Err(died), "it may have been received");
        }
        let died = SyncSendError::Disconnected(WhyEnded::PeerDied, Outcome::NotStarted);
        assert_eq!(untaken.wait(), Err(died.clone()), "it was not received");
        assert_eq!((sender.send(&(4, vec![])), sender.under_way()), (Err(died), 0));
    }
}

#[test]
fn a_stopped_owner_holds_no_sender_beyond_its_deadline() {
    let _watchdog = Watchdog::new("a_stopped_owner_holds_no_sender_beyond_its_deadline");
    let name = Name::new("stopped-owner");
    let mut owner = process::owner(&name.0, 4, None);
    let sender = SyncPortSender::<Note, u64>::connect(&name.0).unwrap();
    stop(owner.pid());
    for number in 0..6 {
        let late = sender.send_timeout(&(number, vec![]), Duration::from_millis(3));
        assert!(matches!(late, Err(SyncSendError::Timeout(_))), "{late:?}");
    }
    cont(owner.pid());
    // The messages that were given up hold nothing back.
    let pending = sender.begin((50, vec![])).unwrap();
    owner.begin("serve 1 1000000");
    assert_eq!((owner.hear(), pending.wait()), ("serves".to_owned(), Ok(100)));
    until("all credits", || (sender.under_way() == 0).then_some(()));
}

#[test]
fn a_stopped_sender_holds_nobody_up() {
    let _watchdog = Watchdog::new("a_stopped_sender_holds_nobody_up");
    let port = own("stopped-sender", SyncPortOptions::new().messages(10));
    let (mut bad, mut good) = (process::sender(&port.name, None), process::sender(&port.name, None));
    bad.begin("begin 0 10");
    let first = port.park(10);
    assert_eq!(bad.hear(), "begun");
    stop(bad.pid());
    first.into_iter().for_each(|(number, reply)| reply.give(number));
    good.begin("flood 1 100");
    (0..100).for_each(|_| {
        let (note, reply) = port.message().take();
        reply.give(2 * note.0);
    });
    process::signals(&mut good);
    cont(bad.pid());
    assert_eq!(bad.ask("wait"), "0 1 2 3 4 5 6 7 8 9");
}

#[test]
fn processes_that_are_killed_at_any_moment_leave_nobody_waiting() {
    let _watchdog = Watchdog::new("processes_that_are_killed_at_any_moment_leave_nobody_waiting");
    for round in 0..10_u64 {
        // An owner under load.
        let name = Name::new(&format!("any-moment-{round}"));
        let mut owner = process::owner(&name.0, 16, None);
        let sender = SyncPortSender::<Note, u64>::connect(&name.0).unwrap();
        owner.begin("serve 3 1000000");
        assert_eq!(owner.hear(), "serves");
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let sender = sender.clone();
                thread::spawn(move || {
                    (0..).map(|number| sender.send(&(number, vec![]))).find_map(Result::err).unwrap()
                })
            })
            .collect();
        until("some messages", || (sender.counters().calls > 20 * round).then_some(()));
        owner.kill();
        for thread in threads {
            let error = thread.join().unwrap();
            assert!(matches!(error, SyncSendError::Disconnected(WhyEnded::PeerDied, _)), "{error:?}");
        }
        // A sender under load.
        let port = own(&format!("killed-sender-{round}"), SyncPortOptions::new().messages(16));
        let mut sender = process::sender(&port.name, None);
        sender.begin("flood 4 1000000");
        for _ in 0..20 * round {
            let (note, reply) = port.message().take();
            reply.give(2 * note.0);
        }
        sender.kill();
        let receiver = port.receiver.clone();
        drop(port.running);
        // It ends, since no reply is left.
        receiver.messages().for_each(drop);
    }
}

#[test]
fn a_revoked_sender_is_told() {
    let _watchdog = Watchdog::new("a_revoked_sender_is_told");
    let port = own("revoked", SyncPortOptions::new());
    let sender = SyncPortSender::<Note, u64>::connect(&port.name).unwrap();
    let pending = sender.begin((1, vec![])).unwrap();
    let came = port.message();
    let from = came.from();
    let bindings = port.running.bindings();
    let binding = bindings.list().into_iter().find(|binding| binding.id() == from.binding()).unwrap();
    assert_eq!((binding.peer().pid(), from.lane()), (std::process::id(), sender.lane()));
    assert_eq!(bindings.revoke(|binding| binding.id() == from.binding()), 1);
    assert_eq!(pending.wait(), Err(SyncSendError::Disconnected(WhyEnded::Revoked, Outcome::Unknown)));
    let revoked = sender.send(&(2, vec![]));
    assert_eq!(revoked, Err(SyncSendError::Disconnected(WhyEnded::Revoked, Outcome::NotStarted)));
    let (_, reply) = came.take();
    assert!(!reply.is_wanted());
}

#[test]
fn senders_are_authorized() {
    let _watchdog = Watchdog::new("senders_are_authorized");
    Room::directory();
    let name = Room::name("authorized");
    let (service, _receiver) = SyncPortOptions::new().open::<Note, u64>();
    let _running = Server::new().export(&*name, service.authorize(|_| false)).start().unwrap();
    let refused = SyncPortSender::<Note, u64>::connect(&name);
    assert!(matches!(refused, Err(ConnectError::Import(_))));
    let unlike = SyncPortSender::<u64, u64>::connect(&name);
    assert!(matches!(unlike, Err(ConnectError::Import(_))), "its messages have another type");
}

#[test]
fn a_resilient_sender_goes_on_with_the_next_owner() {
    let _watchdog = Watchdog::new("a_resilient_sender_goes_on_with_the_next_owner");
    let name = Name::new("resilient");
    let mut owner = process::owner(&name.0, 8, None);
    let policy = Policy::new().patience(Duration::from_secs(60));
    let sender = SyncPortSender::<Note, u64>::connect_resilient(&name.0, policy).unwrap();
    let send = |number| {
        let sender = sender.clone();
        thread::spawn(move || sender.send(&(number, vec![])))
    };
    let received = send(1);
    owner.ask("park 1");
    stop(owner.pid());
    let waits = send(2);
    until("a message", || (sender.under_way() == 2).then_some(()));
    owner.kill();
    let died = SyncSendError::Disconnected(WhyEnded::PeerDied, Outcome::Unknown);
    assert_eq!(received.join().unwrap(), Err(died), "it may have been received");
    let mut owner = process::owner(&name.0, 8, None);
    owner.ask("park 1");
    owner.ask("give");
    assert_eq!(waits.join().unwrap(), Ok(4), "it was sent again");
}
