//! Threads of all kinds, tasks and selects wait for messages, for room and for replies.

use super::own;
use super::process;
use std::time::{Duration, Instant};
use underpass::port::PortRecvError;
use underpass::port::sync::{SyncPortOptions, SyncPortSender, SyncSendError};
use underpass::sync::{Select, mpmc};
use underpass::{Outcome, thread};
use underpass_tests::{Watchdog, until};

#[test]
fn a_full_port_refuses_and_holds_up_until_a_reply_makes_room() {
    let _watchdog = Watchdog::new("a_full_port_refuses_and_holds_up_until_a_reply_makes_room");
    let port = own("full", SyncPortOptions::new().messages(3));
    let sender = SyncPortSender::<super::Note, u64>::connect(&port.name).unwrap();
    assert_eq!(sender.messages(), 3);
    let pending: Vec<_> = (0..3).map(|number| sender.begin((number, vec![])).unwrap()).collect();
    assert_eq!((sender.try_send(&(3, vec![])), sender.under_way()), (Err(SyncSendError::Full), 3));
    let late = sender.send_timeout(&(3, vec![]), Duration::from_millis(2));
    assert_eq!(late, Err(SyncSendError::Timeout(Outcome::NotStarted)));
    let late = sender.send_deadline(&(3, vec![]), Instant::now());
    assert_eq!(late, Err(SyncSendError::Timeout(Outcome::NotStarted)));
    let waiting: Vec<_> = (3..6)
        .map(|number| {
            let sender = sender.clone();
            match number {
                3 => std::thread::spawn(move || sender.send(&(number, vec![]))),
                _ => std::thread::spawn(move || {
                    thread::spawn(move || sender.send(&(number, vec![]))).join().unwrap()
                }),
            }
        })
        .collect();
    (0..6).for_each(|_| {
        let (note, reply) = port.message().take();
        reply.give(note.0);
    });
    for (number, waiting) in (3..).zip(waiting) {
        assert_eq!(waiting.join().unwrap(), Ok(number));
    }
    assert!(pending.into_iter().map(|pending| pending.wait()).eq((0..3).map(Ok)));
    assert_eq!(sender.under_way(), 0);
}

#[test]
fn a_sender_waits_no_longer_than_the_call_that_it_serves() {
    let _watchdog = Watchdog::new("a_sender_waits_no_longer_than_the_call_that_it_serves");
    let port = own("served", SyncPortOptions::new().messages(1));
    let sender = SyncPortSender::<super::Note, u64>::connect(&port.name).unwrap();
    let pending = sender.begin((1, vec![])).unwrap();
    let (tell, told) = mpmc::unbounded();
    let name = underpass_tests::Room::name("serves");
    let service = SyncPortOptions::new().with_handler::<u64, u64>(move |_| {
        // The port is full.
        tell.send(sender.send(&(2, vec![]))).unwrap();
        0
    });
    let _running = underpass::Server::new().export(&*name, service).start().unwrap();
    let asker = SyncPortSender::<u64, u64>::connect(&name).unwrap();
    // On a busy machine the time may be over before the handler begins.
    let error = until("a handler", || {
        // The handler replies at the deadline, so its reply may come in time or not.
        let _either = asker.send_timeout(&1, Duration::from_millis(20));
        told.recv_timeout(Duration::from_millis(100)).ok()
    });
    assert_eq!(error, Err(SyncSendError::Timeout(Outcome::NotStarted)));
    port.message().reply(5);
    assert_eq!(pending.wait(), Ok(5));
}

#[test]
fn of_a_burst_each_waiting_receiver_gets_a_message() {
    let _watchdog = Watchdog::new("of_a_burst_each_waiting_receiver_gets_a_message");
    const RECEIVERS: usize = 6;
    let port = own("burst", SyncPortOptions::new());
    let mut sender = process::sender(&port.name, None);
    for round in 0..20 {
        // Each keeps its message until all have one. So no receiver takes two.
        let all = std::sync::Arc::new(std::sync::Barrier::new(RECEIVERS));
        let receivers: Vec<_> = (0..RECEIVERS)
            .map(|_| {
                let (all, receiver) = (all.clone(), port.receiver.clone());
                std::thread::spawn(move || {
                    let (note, reply) = receiver.recv().unwrap().take();
                    all.wait();
                    reply.give(2 * note.0);
                })
            })
            .collect();
        sender.ask(&format!("begin {round} {RECEIVERS}"));
        receivers.into_iter().for_each(|thread| thread.join().unwrap());
        let replies: Vec<_> = (round..round + RECEIVERS).map(|number| (2 * number).to_string()).collect();
        assert_eq!(sender.ask("wait"), replies.join(" "));
    }
}

#[test]
fn a_pending_reply_is_waited_for_by_threads_tasks_and_in_parts() {
    let _watchdog = Watchdog::new("a_pending_reply_is_waited_for_by_threads_tasks_and_in_parts");
    let port = own("pending", SyncPortOptions::new());
    let sender = SyncPortSender::<super::Note, u64>::connect(&port.name).unwrap();
    let pending = sender.begin((1, vec![])).unwrap();
    let pending = pending.try_wait().expect_err("nobody has replied");
    let pending = pending.wait_timeout(Duration::from_millis(3)).expect_err("nobody has replied");
    port.message().reply(2);
    assert_eq!(pending.wait_timeout(Duration::from_secs(60)).expect("there is a reply"), Ok(2));
    // In another thread, and as a future.
    let (first, second) = (sender.begin((1, vec![])).unwrap(), sender.begin((2, vec![])).unwrap());
    let waiting = std::thread::spawn(|| first.wait());
    (0..2).for_each(|_| {
        let (note, reply) = port.message().take();
        reply.give(note.0);
    });
    assert_eq!((waiting.join().unwrap(), smol::block_on(second)), (Ok(1), Ok(2)));
}

#[test]
fn tasks_send_and_receive() {
    let _watchdog = Watchdog::new("tasks_send_and_receive");
    let port = own("tasks", SyncPortOptions::new().messages(4));
    let sender = SyncPortSender::<super::Note, u64>::connect(&port.name).unwrap();
    let executor = smol::Executor::new();
    let receiver = port.receiver.clone();
    let receives = executor.spawn(async move {
        let mut count = 0;
        while count < 200 {
            let (note, reply) = receiver.recv_async().await.unwrap().take();
            reply.give(2 * note.0);
            count += 1;
        }
    });
    let sends: Vec<_> = (0..20)
        .map(|task| {
            let sender = sender.clone();
            executor.spawn(async move {
                for number in 0..10 {
                    let number = 100 * task + number;
                    assert_eq!(sender.send_async(&(number, vec![])).await, Ok(2 * number));
                }
            })
        })
        .collect();
    smol::block_on(executor.run(async {
        for send in sends {
            send.await;
        }
        receives.await;
    }));
    assert_eq!(sender.under_way(), 0);
}

#[test]
fn a_dropped_task_gives_its_message_up() {
    let _watchdog = Watchdog::new("a_dropped_task_gives_its_message_up");
    let port = own("dropped-task", SyncPortOptions::new().messages(1));
    let sender = SyncPortSender::<super::Note, u64>::connect(&port.name).unwrap();
    for _ in 0..20 {
        let message = (1, vec![]);
        let mut send = Box::pin(sender.send_async(&message));
        let mut task = std::task::Context::from_waker(std::task::Waker::noop());
        until("a message", || {
            assert!(send.as_mut().poll(&mut task).is_pending());
            (port.receiver.queued() == 1).then_some(())
        });
        drop(send);
        let (_, reply) = port.message().take();
        until("an unwanted reply", || (!reply.is_wanted()).then_some(()));
        // The only credit comes back.
        let next = sender.begin((2, vec![])).unwrap();
        reply.give(1);
        port.message().reply(3);
        assert_eq!(next.wait(), Ok(3));
    }
}

#[test]
fn a_receiver_is_a_case_of_a_select() {
    let _watchdog = Watchdog::new("a_receiver_is_a_case_of_a_select");
    let (one, two) = (own("select-1", SyncPortOptions::new()), own("select-2", SyncPortOptions::new()));
    let mut senders = [process::sender(&one.name, None), process::sender(&two.name, None)];
    let (stop, stopped) = mpmc::bounded::<()>(1);
    let owner = thread::spawn(move || {
        let mut counts = [0; 2];
        loop {
            let chosen = Select::new()
                .recv(&one.receiver, |came| Some((0, came.unwrap())))
                .recv(&two.receiver, |came| Some((1, came.unwrap())))
                .recv(&stopped, |_| None)
                .wait();
            let Some((port, came)) = chosen.unwrap() else { return counts };
            counts[port] += 1;
            let (note, reply) = came.take();
            reply.give(2 * note.0);
        }
    });
    senders.iter_mut().for_each(|sender| sender.begin("flood 3 50"));
    for sender in &mut senders {
        process::signals(sender);
    }
    stop.send(()).unwrap();
    assert_eq!(owner.join().unwrap(), [150, 150]);
}

#[test]
fn waiting_receivers_and_senders_are_cancelled() {
    let _watchdog = Watchdog::new("waiting_receivers_and_senders_are_cancelled");
    let port = own("cancelled", SyncPortOptions::new().messages(1));
    assert_eq!(port.receiver.try_recv().unwrap_err(), PortRecvError::Empty);
    let timeout = port.receiver.recv_timeout(Duration::from_millis(1));
    assert_eq!(timeout.unwrap_err(), PortRecvError::Timeout);
    let receiver = port.receiver.clone();
    let receives = thread::spawn(move || receiver.recv().unwrap_err());
    receives.cancel();
    assert_eq!(receives.join().unwrap(), PortRecvError::Cancelled);
    let sender = SyncPortSender::<super::Note, u64>::connect(&port.name).unwrap();
    let other = sender.clone();
    let sends = thread::spawn(move || other.send(&(1, vec![])));
    until("a message", || (port.receiver.queued() == 1).then_some(()));
    // The only credit is taken.
    let other = sender.clone();
    let waits = thread::spawn(move || other.send(&(2, vec![])));
    waits.cancel();
    assert_eq!(waits.join().unwrap(), Err(SyncSendError::Cancelled(Outcome::NotStarted)));
    let (_, reply) = port.message().take();
    sends.cancel();
    assert_eq!(sends.join().unwrap(), Err(SyncSendError::Cancelled(Outcome::Unknown)));
    drop(reply);
    until("the credit", || (sender.under_way() == 0).then_some(()));
    // Without its service and its senders a port is over.
    let receiver = port.receiver.clone();
    drop((sender, port.running));
    assert_eq!(receiver.recv().unwrap_err(), PortRecvError::Disconnected);
    assert_eq!(smol::block_on(receiver.recv_async()).unwrap_err(), PortRecvError::Disconnected);
}
