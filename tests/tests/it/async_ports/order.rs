//! Order, room, losses and batches.

use super::process;
use super::{Note, Owned, own};
use std::collections::HashMap;
use std::time::Duration;
use underpass::port::{
    Arrival, ConnectError, OpenRefused, PortOptions, PortRecvError, PortSendError, PortSender, WhyEnded,
};
use underpass_tests::Watchdog;

const SENDERS: usize = 4;

#[test]
fn messages_of_each_sender_come_in_the_order_of_its_sends() {
    let _watchdog = Watchdog::new("messages_of_each_sender_come_in_the_order_of_its_sends");
    let port = own("order", PortOptions::new().messages(20).longest(200));
    let mut senders: Vec<_> = (0..SENDERS).map(|_| process::sender(&port.name, 1)).collect();
    for (len, sender) in senders.iter_mut().enumerate() {
        sender.begin(&format!("send 500 {}", len * 50));
        sender.begin("drop");
    }
    let mut next = HashMap::new();
    let mut ended = 0;
    while ended < SENDERS {
        match port.receiver.recv().unwrap() {
            Arrival::Message(came) => {
                let next = next.entry(came.from).or_insert(0);
                assert_eq!((came.message.0, came.number, came.lost), (*next, *next, 0));
                assert!(came.message.1.iter().all(|&byte| byte == came.number as u8), "it is whole");
                *next += 1;
            }
            Arrival::Ended(end) => {
                assert_eq!((end.why, end.messages, next[&end.from]), (WhyEnded::Finished, 500, 500));
                ended += 1;
            }
        }
    }
    assert_eq!(port.receiver.try_recv(), Err(PortRecvError::Empty));
    senders.iter_mut().for_each(|sender| assert_eq!(sender.hear(), "sent 500"));
}

#[test]
fn a_full_port_refuses_or_makes_its_sender_wait() {
    let _watchdog = Watchdog::new("a_full_port_refuses_or_makes_its_sender_wait");
    let port = own("room", PortOptions::new().messages(8).longest(64));
    let mut sender = process::sender(&port.name, 1);
    (0..8).for_each(|_| assert_eq!(sender.ask("try"), "sent"));
    assert_eq!(sender.ask("try"), "Full");
    assert_eq!(port.message().message.0, 0);
    assert_eq!((sender.ask("try"), sender.ask("try")), ("sent".to_owned(), "Full".to_owned()));
    // It waits for room again and again.
    sender.begin("send 1000 40");
    (1..1009).for_each(|number| assert_eq!(port.message().message.0, number));
    assert_eq!(sender.hear(), "sent 1009");
}

#[test]
fn many_threads_of_a_sender_wait_for_room() {
    let _watchdog = Watchdog::new("many_threads_of_a_sender_wait_for_room");
    let port = own("threads", PortOptions::new().messages(2).longest(64));
    let sender = PortSender::<Note>::connect(&port.name).unwrap();
    // User-level threads and kernel threads.
    let users: Vec<_> = (0..10)
        .map(|n| {
            let sender = sender.clone();
            underpass::thread::spawn(move || (0..50).for_each(|_| assert!(sender.send(&(n, vec![])).is_ok())))
        })
        .collect();
    let kernels: Vec<_> = (10..14)
        .map(|n| {
            let sender = sender.clone();
            std::thread::spawn(move || (0..50).for_each(|_| assert!(sender.send(&(n, vec![])).is_ok())))
        })
        .collect();
    let mut count = [0; 14];
    (0..14 * 50).for_each(|_| count[port.message().message.0 as usize] += 1);
    users.into_iter().for_each(|thread| thread.join().unwrap());
    kernels.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(count, [50; 14]);
}

#[test]
fn losses_are_told_where_they_happened() {
    let _watchdog = Watchdog::new("losses_are_told_where_they_happened");
    let port = own("losses", PortOptions::new().messages(16).longest(64).drop_oldest());
    let mut sender = process::sender(&port.name, 1);
    assert_eq!(sender.ask("send 100 8"), "sent 100", "it never waits");
    let first = port.message();
    assert_eq!((first.message.0, first.number, first.lost), (84, 84, 84));
    (85..100).for_each(|number| assert_eq!((port.message().message.0, 0), (number, 0)));
    // Both at once: each message is received or counted.
    sender.begin("send 20000 8");
    sender.begin("drop");
    let (mut next, mut received) = (100, 0);
    let ended = loop {
        match port.receiver.recv().unwrap() {
            Arrival::Message(came) => {
                assert_eq!((came.message.0, came.number), (next + came.lost, next + came.lost));
                next = came.number + 1;
                received += 1;
            }
            Arrival::Ended(ended) => break ended,
        }
    };
    assert_eq!((next, ended.messages, ended.why), (20_100, 20_100, WhyEnded::Finished));
    assert!(received >= 16, "the last ones are there");
}

#[test]
fn a_batch_has_at_least_so_many_or_what_came_in_time() {
    let _watchdog = Watchdog::new("a_batch_has_at_least_so_many_or_what_came_in_time");
    let port = own("batch", PortOptions::new().messages(100).longest(64));
    let batch = |least, most, span| port.receiver.recv_batch(least, most, span);
    let forever = Duration::from_secs(3600);
    assert_eq!(batch(1, 10, Duration::ZERO), Err(PortRecvError::Timeout));
    let mut sender = process::sender(&port.name, 1);
    sender.ask("send 20 8");
    assert_eq!(batch(1, 10, forever).unwrap().len(), 10, "no more than so many");
    assert_eq!(batch(5, 100, forever).unwrap().len(), 10, "all that is there");
    sender.begin("send 30 8");
    assert!(batch(25, 100, forever).unwrap().len() >= 25, "it waits for so many");
    sender.hear();
    let rest = port.receiver.recv_batch(100, 100, Duration::from_millis(1));
    assert!(rest.map_or(0, |rest| rest.len()) <= 5, "it doesn't wait for ever");
}

#[test]
fn a_message_that_the_port_has_no_room_for_is_refused() {
    let _watchdog = Watchdog::new("a_message_that_the_port_has_no_room_for_is_refused");
    let port = own("sizes", PortOptions::new().longest(64));
    let sender = PortSender::<Note>::connect(&port.name).unwrap();
    assert_eq!(sender.send(&(0, vec![0; 55])), Ok(0));
    assert_eq!(sender.send(&(0, vec![0; 56])), Err(PortSendError::TooLong));
    assert_eq!(sender.reserve(65).unwrap_err(), PortSendError::TooLong);
    let mut room = sender.reserve(4).unwrap();
    room.put(&[1; 5]);
    assert_eq!(room.commit(), Err(PortSendError::TooLong));
    let mut room = sender.reserve(64).unwrap();
    room.put(&7_u64.to_le_bytes());
    room.put(&[2, 1, 2]);
    assert_eq!(room.commit(), Ok(1));
    assert_eq!(port.message().message.1.len(), 55);
    assert_eq!(port.message().message, (7, vec![1, 2]));
    match PortSender::<u32>::connect(&port.name) {
        Err(ConnectError::Refused(why)) => assert_eq!(why, OpenRefused::AnotherType),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_message_ends_its_lane_alone() {
    let _watchdog = Watchdog::new("what_is_no_message_ends_its_lane_alone");
    let port = own("nonsense", PortOptions::new().longest(64));
    let (good, bad) =
        (PortSender::<Note>::connect(&port.name).unwrap(), PortSender::<Note>::connect(&port.name).unwrap());
    let mut room = bad.reserve(64).unwrap();
    room.put(&[9; 9]);
    room.commit().unwrap();
    let (numbers, ended) = port.ended();
    assert_eq!((numbers.len(), ended.why, ended.from.lane()), (0, WhyEnded::Malformed, bad.lane()));
    good.send(&(3, vec![])).unwrap();
    assert_eq!(port.message().message.0, 3);
    ends(&bad, &port);
}

/// The sender hears that its lane has ended.
fn ends(sender: &PortSender<Note>, _port: &Owned) {
    while sender.ended().is_none() {
        std::thread::yield_now();
    }
    assert_eq!(sender.send(&(0, vec![])), Err(PortSendError::Disconnected));
}
