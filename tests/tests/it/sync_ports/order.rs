//! The order of one sender's messages, whatever becomes of single ones.

use super::own;
use super::process;
use std::time::Duration;
use underpass::port::sync::{SyncPortOptions, SyncPortSender, SyncSendError};
use underpass::{Outcome, thread};
use underpass_tests::{Watchdog, until};

#[test]
fn messages_of_one_sender_are_received_in_the_order_in_which_they_were_sent() {
    let _watchdog = Watchdog::new("messages_of_one_sender_are_received_in_the_order_in_which_they_were_sent");
    let port = own("order", SyncPortOptions::new().messages(50));
    let mut senders: Vec<_> = (0..2).map(|_| process::sender(&port.name, None)).collect();
    for round in 0..10 {
        senders.iter_mut().for_each(|sender| sender.begin(&format!("begin {} 50", 50 * round)));
        let mut next = [50 * round; 3];
        for _ in 0..100 {
            let came = port.message();
            let lane = came.from().lane() as usize;
            let (note, reply) = came.take();
            assert_eq!(note.0, next[lane], "of sender {lane}");
            next[lane] += 1;
            reply.give(note.0);
        }
        for sender in &mut senders {
            assert_eq!(sender.hear(), "begun");
            sender.ask("wait");
        }
    }
}

#[test]
fn a_message_that_was_given_up_leaves_no_gap() {
    let _watchdog = Watchdog::new("a_message_that_was_given_up_leaves_no_gap");
    let port = own("gap", SyncPortOptions::new().messages(4));
    let sender = SyncPortSender::<super::Note, u64>::connect(&port.name).unwrap();
    for round in 0..100 {
        // Its time is over before it is sent, or a little later.
        let late = sender.send_timeout(&(1_000, vec![]), Duration::from_micros(round));
        assert!(matches!(late, Err(SyncSendError::Timeout(_) | SyncSendError::Cancelled(_))), "{late:?}");
        drop(sender.begin((1_001, vec![])));
        let after = sender.begin((round, vec![])).unwrap();
        let number = loop {
            let (note, reply) = port.message().take();
            reply.give(note.0);
            if note.0 < 1_000 {
                break note.0;
            }
        };
        assert_eq!((number, after.wait()), (round, Ok(round)));
    }
    until("all credits", || (sender.under_way() == 0).then_some(()));
}

#[test]
fn a_message_that_can_not_be_posted_leaves_no_gap() {
    let _watchdog = Watchdog::new("a_message_that_can_not_be_posted_leaves_no_gap");
    let port = own("slots", SyncPortOptions::new().messages(200));
    let sender = SyncPortSender::<super::Note, u64>::connect(&port.name).unwrap();
    let filler = sender.clone();
    let begun = thread::spawn(move || {
        (0..150).map(|number| filler.begin((number, vec![])).unwrap()).collect::<Vec<_>>()
    });
    // Meanwhile there may be no slot.
    let tried: Vec<_> = (0..20)
        .map(|number| {
            let sender = sender.clone();
            std::thread::spawn(move || sender.try_send(&(1_000 + number, vec![])))
        })
        .collect();
    let receiver = port.receiver.clone();
    let owner = thread::spawn(move || {
        for came in receiver.messages() {
            let (note, reply) = came.take();
            reply.give(note.0);
        }
    });
    for (number, tried) in tried.into_iter().enumerate() {
        match tried.join().unwrap() {
            Ok(reply) => assert_eq!(reply, 1_000 + number as u64),
            Err(error) => assert_eq!((&error, error.outcome()), (&SyncSendError::Full, Outcome::NotStarted)),
        }
    }
    for (number, begun) in begun.join().unwrap().into_iter().enumerate() {
        assert_eq!(begun.wait(), Ok(number as u64));
    }
    owner.cancel();
    owner.join().unwrap();
}
