//! What ports cost: signals, idle ports, many senders, one CPU.

use super::process;
use super::{Note, own};
use std::collections::HashSet;
use std::time::Duration;
use underpass::port::{OtherSide, PortOptions, PortRecvError, PortSender};
use underpass_tests::{Room, Watchdog, state_of, switches_of, ticks_of, until};

#[test]
fn a_signal_is_sent_only_for_a_receiver_that_waits_at_an_empty_queue() {
    let _watchdog = Watchdog::new("a_signal_is_sent_only_for_a_receiver_that_waits_at_an_empty_queue");
    Room::directory();
    let name = Room::name("signals");
    let mut owner = process::owner(&name, 64, None);
    let sender = PortSender::<Note>::connect(&name).unwrap();
    let rings = || sender.pressure().rings;
    let waits =
        || until("a waiting receiver", || (sender.pressure().other_side == OtherSide::Waits).then_some(()));
    let send = |count| (0..count).for_each(|n| assert!(sender.send(&(n, vec![])).is_ok()));
    // A fresh lane: its first message rings, since the owner does not look at lanes that are quiet.
    send(1);
    assert_eq!(rings(), 1);
    // No receiver waits.
    owner.ask("take 1");
    send(10);
    assert_eq!(rings(), 1);
    // One waits, and there is one signal for all of these, since the owner is stopped.
    owner.begin("take 30");
    waits();
    underpass_tests::stop(owner.pid());
    send(20);
    assert_eq!(rings(), 2);
    underpass_tests::cont(owner.pid());
    owner.hear();
    let _ = std::fs::remove_file(Room::directory().join(&name));
}

#[test]
fn a_receiver_rings_only_for_a_sender_that_waits() {
    let _watchdog = Watchdog::new("a_receiver_rings_only_for_a_sender_that_waits");
    let port = own("room-signals", PortOptions::new().messages(8).longest(64));
    let mut sender = process::sender(&port.name, 1);
    for _ in 0..10 {
        sender.ask("send 8 8");
        (0..8).for_each(|_| drop(port.message()));
    }
    assert_eq!(port.receiver.pressure().rings, 0);
    sender.begin("send 9 8");
    until("a full lane", || (port.receiver.pressure().queued == 8).then_some(()));
    (0..9).for_each(|_| drop(port.message()));
    sender.hear();
    assert!(port.receiver.pressure().rings <= 1);
}

/// A state that changes if the process does anything.
fn state(pid: u32) -> (String, (u64, u64), u64) {
    (state_of(pid), switches_of(pid), ticks_of(pid))
}

#[test]
fn idle_ports_use_no_cpu() {
    let _watchdog = Watchdog::new("idle_ports_use_no_cpu");
    Room::directory();
    let name = Room::name("idle-port");
    let mut owner = process::owner(&name, 64, None);
    let mut sender = process::sender(&name, 20);
    owner.begin("take 1000000");
    assert_eq!(sender.ask("send 10 8"), "sent 10");
    for pid in [owner.pid(), sender.pid()] {
        // The domain may wake a few more times before it rests.
        until("a process that stays asleep", || {
            let asleep = until("all kernel threads to sleep", || {
                let (before, now) = (state(pid), state(pid));
                (before == now && now.0.bytes().all(|state| state == b'S')).then_some(now)
            });
            (0..1_000).all(|_| state(pid) == asleep).then_some(())
        });
    }
    let _ = std::fs::remove_file(Room::directory().join(&name));
}

#[test]
fn a_thousand_senders_are_served() {
    let _watchdog = Watchdog::new("a_thousand_senders_are_served");
    underpass_os::process::raise_files().unwrap();
    const SENDERS: usize = 1_000;
    // Each takes some files of this process. A system with fewer is tested with fewer.
    let senders = SENDERS.min(underpass_os::process::files() as usize / 8);
    let port = {
        Room::directory();
        let name = Room::name("thousand");
        let (service, receiver) = PortOptions::new().messages(4).longest(64).open().unwrap();
        let limits =
            underpass::Limits { bindings: SENDERS + 1, memory: u64::MAX, ..underpass::Limits::default() };
        let running = underpass::Server::new().limits(limits).export(&*name, service).start().unwrap();
        super::Owned { receiver, running, name }
    };
    let mut quiet = process::sender(&port.name, senders - 10);
    let mut busy = process::sender(&port.name, 10);
    assert_eq!(port.receiver.pressure().lanes, senders);
    busy.begin("send 200 8");
    let mut lanes = HashSet::new();
    lanes.extend((0..2_000).map(|_| port.message().from));
    assert_eq!((lanes.len(), busy.hear()), (10, "sent 200".to_owned()));
    quiet.begin("send 1 8");
    lanes.extend((0..senders - 10).map(|_| port.message().from));
    assert_eq!((lanes.len(), quiet.hear()), (senders, "sent 1".to_owned()));
    // The receiver waits, and looks at those lanes no more.
    assert_eq!(port.receiver.recv_timeout(Duration::from_millis(1)), Err(PortRecvError::Timeout));
    let of_ten = own("only-ten", PortOptions::new().messages(4).longest(64));
    let mut only = process::sender(&of_ten.name, 10);
    for (port, sender) in [(&port, &mut busy), (&of_ten, &mut only)] {
        let before = port.receiver.looks();
        sender.begin("send 200 8");
        (0..2_000).for_each(|_| drop(port.message()));
        sender.hear();
        // For each message: the ten before a wait, while it is announced, and after it.
        let looks = port.receiver.looks() - before;
        assert!(looks <= 3 * 10 * 2_000 + 3 * 10, "{looks} lanes were looked at for 2,000 messages");
    }
}

#[test]
fn both_sides_share_one_cpu() {
    let _watchdog = Watchdog::new("both_sides_share_one_cpu");
    Room::directory();
    let name = Room::name("one-cpu");
    let mut owner = process::owner(&name, 8, Some(0));
    let mut sender = process::sender_on(&name, 0);
    owner.begin("take 3000");
    assert_eq!(sender.ask("send 3000 8"), "sent 3000");
    assert!(owner.hear().ends_with(" 2998 2999"));
    let _ = std::fs::remove_file(Room::directory().join(&name));
}
