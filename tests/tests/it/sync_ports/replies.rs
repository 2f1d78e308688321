//! Replies that come late, out of order, from other threads, or not at all.

use super::process;
use super::{Name, own};
use std::time::Duration;
use underpass::port::sync::{SharedMessage, SyncPortOptions, SyncPortSender, SyncSendError};
use underpass::{Outcome, Sealed, Server, thread};
use underpass_tests::{Room, Watchdog, until};

#[test]
fn replies_come_late_out_of_order_and_from_other_threads() {
    let _watchdog = Watchdog::new("replies_come_late_out_of_order_and_from_other_threads");
    let port = own("late-replies", SyncPortOptions::new().messages(40));
    let mut sender = process::sender(&port.name, None);
    assert_eq!(sender.ask("begin 0 40"), "begun");
    let mut parked = port.park(40);
    // Longer than calls keep their slots.
    thread::sleep(Duration::from_millis(5));
    let early = parked.split_off(20);
    let of_kernel = std::thread::spawn(|| early.into_iter().rev().for_each(|(n, reply)| reply.give(2 * n)));
    let of_user = thread::spawn(|| parked.into_iter().for_each(|(n, reply)| reply.give(2 * n)));
    of_kernel.join().unwrap();
    of_user.join().unwrap();
    let replies: Vec<_> = (0..40).map(|number: u64| (2 * number).to_string()).collect();
    assert_eq!(sender.ask("wait"), replies.join(" "), "each message has its own reply");
}

#[test]
fn hundreds_of_parked_replies_hold_nobody_up() {
    let _watchdog = Watchdog::new("hundreds_of_parked_replies_hold_nobody_up");
    const PARKED: usize = 300;
    let port = own("parked", SyncPortOptions::new().messages(PARKED as u64 + 1));
    let (mut parking, mut other) = (process::sender(&port.name, None), process::sender(&port.name, None));
    parking.begin(&format!("begin 0 {PARKED}"));
    let parked = port.park(PARKED);
    assert_eq!(parking.hear(), "begun");
    for sender in [&mut parking, &mut other] {
        sender.begin("send 7");
        port.message().reply(9);
        assert_eq!(sender.hear(), "9");
    }
    parked.into_iter().rev().for_each(|(number, reply)| reply.give(number));
    let replies: Vec<_> = (0..PARKED).map(|number| number.to_string()).collect();
    assert_eq!(parking.ask("wait"), replies.join(" "));
}

#[test]
fn a_dropped_reply_is_the_error_of_its_own_sender_alone() {
    let _watchdog = Watchdog::new("a_dropped_reply_is_the_error_of_its_own_sender_alone");
    let port = own("dropped", SyncPortOptions::new());
    let mut sender = process::sender(&port.name, None);
    for pause in [0, 5] {
        sender.ask("begin 0 5");
        let parked = port.park(5);
        thread::sleep(Duration::from_millis(pause));
        for (number, reply) in parked {
            match number % 2 {
                0 => reply.give(number),
                _ => drop(reply),
            }
        }
        assert_eq!(sender.ask("wait"), "0 Dropped 2 Dropped 4");
    }
}

#[test]
fn the_last_receiver_returns_what_it_has_not_received() {
    let _watchdog = Watchdog::new("the_last_receiver_returns_what_it_has_not_received");
    let name = Name::new("close");
    let mut owner = process::owner(&name.0, 8, None);
    let sender = SyncPortSender::<super::Note, u64>::connect(&name.0).unwrap();
    let pending: Vec<_> = (0..4).map(|number| sender.begin((number, vec![])).unwrap()).collect();
    assert_eq!(owner.ask("park 2"), "parked");
    assert_eq!(owner.ask("close"), "closed");
    let mut pending = pending.into_iter();
    let received: Vec<_> = pending.by_ref().take(2).collect();
    for pending in pending {
        assert_eq!(pending.wait().unwrap_err().outcome(), Outcome::NotStarted, "nobody has received it");
    }
    assert_eq!(sender.send(&(9, vec![])).unwrap_err().outcome(), Outcome::NotStarted);
    assert_eq!(owner.ask("give"), "given");
    assert!(received.into_iter().map(|pending| pending.wait()).eq([Ok(0), Ok(2)]));
}

#[test]
fn a_handler_replies_as_that_of_a_call() {
    let _watchdog = Watchdog::new("a_handler_replies_as_that_of_a_call");
    Room::directory();
    let name = Room::name("handler");
    let service = SyncPortOptions::new().longest(100).with_handler::<super::Note, u64>(|note| {
        assert!(note.0 != 1_013, "a bad number");
        2 * note.0
    });
    let _running = Server::new().export(&*name, service).start().unwrap();
    let mut sender = process::sender(&name, None);
    sender.ask("flood 10 100");
    assert_eq!(sender.ask("begin 0 20"), "begun");
    let replies: Vec<_> = sender.ask("wait").split(' ').map(str::to_owned).collect();
    assert!(replies.iter().enumerate().all(|(n, reply)| *reply == (2 * n).to_string()), "{replies:?}");
    let panicked = sender.ask("send 1013");
    assert!(panicked.contains("the procedure panicked: a bad number"), "{panicked}");
    assert_eq!(sender.ask("send 14"), "28");
    let own = SyncPortSender::<super::Note, u64>::connect(&name).unwrap();
    assert_eq!(own.send(&(1, vec![0; 100])), Err(SyncSendError::TooLong));
}

#[test]
fn a_message_that_is_too_long_is_not_sent() {
    let _watchdog = Watchdog::new("a_message_that_is_too_long_is_not_sent");
    let port = own("long", SyncPortOptions::new().longest(109));
    let sender = SyncPortSender::<super::Note, u64>::connect(&port.name).unwrap();
    // A number and a length are 9 bytes.
    assert_eq!(sender.send(&(1, vec![0; 101])), Err(SyncSendError::TooLong));
    assert_eq!(sender.under_way(), 0);
    let longest = sender.begin((1, vec![0; 100])).unwrap();
    port.message().reply(3);
    assert_eq!(longest.wait(), Ok(3));
}

/// Messages that go beside the A-stack, and memory that is read where it lies.
#[test]
fn messages_of_all_sizes_and_kinds_arrive_whole() {
    let _watchdog = Watchdog::new("messages_of_all_sizes_and_kinds_arrive_whole");
    let port = own("sizes", SyncPortOptions::new().longest(10 << 20));
    let sender = SyncPortSender::<super::Note, u64>::connect(&port.name).unwrap();
    for length in [0, 20, 31, 32, 40, 1_000, 32 << 10, 40 << 10, 3 << 20] {
        let pending = sender.begin((7, vec![length as u8; length])).unwrap();
        let (note, reply) = port.message().take();
        assert_eq!(note, (7, vec![length as u8; length]));
        reply.give(length as u64);
        assert_eq!(pending.wait(), Ok(length as u64));
    }

    let name = Room::name("sealed");
    let (service, receiver) = SyncPortOptions::new().open::<Sealed, u64>();
    let _running = Server::new().export(&*name, service).start().unwrap();
    let sender = SyncPortSender::<Sealed, u64>::connect(&name).unwrap();
    let pending = sender.begin(Sealed::new(&vec![3; 100_000]).unwrap()).unwrap();
    let (bytes, reply) = receiver.recv().unwrap().take();
    reply.give(bytes.iter().map(|&byte| u64::from(byte)).sum());
    assert_eq!(pending.wait(), Ok(300_000));

    let name = Room::name("shared");
    let (service, receiver) = SyncPortOptions::new().longest(1 << 20).open::<SharedMessage, Vec<u8>>();
    let _running = Server::new().export(&*name, service).start().unwrap();
    let sender = SyncPortSender::<SharedMessage, Vec<u8>>::connect(&name).unwrap();
    for length in [3, 1_000, 100_000] {
        let pending = sender.begin(vec![length as u8; length]).unwrap();
        let (bytes, reply) = receiver.recv().unwrap().take();
        // It keeps its slot meanwhile.
        thread::sleep(Duration::from_millis(5));
        reply.give(bytes.lend().to_vec());
        assert_eq!(pending.wait(), Ok(vec![length as u8; length]));
    }
}

#[test]
fn a_receiver_sees_that_its_sender_has_given_up() {
    let _watchdog = Watchdog::new("a_receiver_sees_that_its_sender_has_given_up");
    let port = own("unwanted", SyncPortOptions::new().messages(2));
    let mut sender = process::sender(&port.name, None);
    // On a busy machine the time may be over before the message is there.
    let (_, reply) = until("a message", || {
        let answer = sender.ask("within 5 30");
        assert!(answer.starts_with("Timeout("), "{answer}");
        Some(port.receiver.try_recv().ok()?.take())
    });
    assert!(reply.cancellation().unwrap().deadline().is_some());
    assert!(!reply.is_wanted());
    // It reaches no other message.
    sender.begin("send 6");
    let next = until("the next message", || {
        let (note, next) = port.message().take();
        (note.0 == 6).then_some(next)
    });
    reply.give(1);
    next.give(2);
    assert_eq!(sender.hear(), "2");
}
