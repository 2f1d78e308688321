//! Threads of all kinds, tasks and selects wait for messages and for room.

use super::process;
use super::{Note, own};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use underpass::port::{Arrival, OtherSide, PortOptions, PortRecvError, PortSender};
use underpass::sync::{Select, mpmc};
use underpass::thread;
use underpass_tests::{Watchdog, cont, stop, until};

#[test]
fn of_a_burst_each_waiting_receiver_gets_a_message() {
    let _watchdog = Watchdog::new("of_a_burst_each_waiting_receiver_gets_a_message");
    const RECEIVERS: usize = 6;
    let port = own("burst", PortOptions::new().messages(100).longest(64));
    let mut sender = process::sender(&port.name, 1);
    for round in 0..20 {
        // Each keeps its message until all have one. So no receiver takes two.
        let all = Arc::new(Barrier::new(RECEIVERS));
        let receivers: Vec<_> = (0..RECEIVERS)
            .map(|_| {
                let (all, receiver) = (all.clone(), port.receiver.clone());
                std::thread::spawn(move || {
                    let came = receiver.recv().unwrap();
                    all.wait();
                    came.into_message().unwrap().0
                })
            })
            .collect();
        sender.ask(&format!("send {RECEIVERS} 8"));
        let mut numbers: Vec<_> = receivers.into_iter().map(|thread| thread.join().unwrap()).collect();
        numbers.sort_unstable();
        let first = round * RECEIVERS as u64;
        assert_eq!(numbers, (first..first + RECEIVERS as u64).collect::<Vec<_>>());
    }
}

#[test]
fn a_receiver_that_computes_leaves_later_messages_to_those_that_wait() {
    let _watchdog = Watchdog::new("a_receiver_that_computes_leaves_later_messages_to_those_that_wait");
    let port = own("computes", PortOptions::new().messages(100).longest(64));
    let mut sender = process::sender(&port.name, 1);
    let (done, results) = mpmc::unbounded();
    let receivers: Vec<_> = (0..2)
        .map(|_| {
            let (receiver, done) = (port.receiver.clone(), done.clone());
            let (release, released) = mpmc::bounded::<()>(0);
            let thread = std::thread::spawn(move || {
                done.send(receiver.recv().unwrap().into_message().unwrap().0).unwrap();
                // It is away until the other one has received, too.
                let _ = released.recv();
            });
            (release, thread)
        })
        .collect();
    sender.ask("send 1 8");
    assert_eq!(results.recv(), Ok(0));
    sender.ask("send 1 8");
    assert_eq!(results.recv(), Ok(1), "the other one is woken");
    for (release, thread) in receivers {
        drop(release);
        thread.join().unwrap();
    }
}

#[test]
fn user_level_threads_wait_without_their_processor() {
    let _watchdog = Watchdog::new("user_level_threads_wait_without_their_processor");
    let port = own("user-level", PortOptions::new().messages(10).longest(64));
    let receivers: Vec<_> = (0..100)
        .map(|_| {
            let receiver = port.receiver.clone();
            thread::spawn(move || receiver.recv().unwrap().into_message().unwrap().0)
        })
        .collect();
    let mut sender = process::sender(&port.name, 1);
    sender.ask("send 100 8");
    let sum: u64 = receivers.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(sum, (0..100).sum::<u64>());
}

#[test]
fn tasks_receive_and_send() {
    let _watchdog = Watchdog::new("tasks_receive_and_send");
    let port = own("tasks", PortOptions::new().messages(3).longest(64));
    let sender = PortSender::<Note>::connect(&port.name).unwrap();
    let executor = smol::Executor::new();
    let receiver = port.receiver.clone();
    let sends: Vec<_> = (0..4)
        .map(|n| {
            let sender = sender.clone();
            executor.spawn(async move {
                for _ in 0..100 {
                    sender.send_async(&(n, vec![])).await.unwrap();
                }
            })
        })
        .collect();
    let mut count = [0; 4];
    smol::block_on(executor.run(async {
        for _ in 0..400 {
            let came = receiver.recv_async().await.unwrap().into_message().unwrap();
            count[came.0 as usize] += 1;
        }
        for send in sends {
            send.await;
        }
    }));
    assert_eq!(count, [100; 4]);
}

#[test]
fn a_task_hears_of_a_message_of_another_process() {
    let _watchdog = Watchdog::new("a_task_hears_of_a_message_of_another_process");
    let port = own("task-hears", PortOptions::new().messages(3).longest(64));
    let mut sender = process::sender(&port.name, 1);
    for number in 0..50 {
        sender.begin("send 1 8");
        let came = smol::block_on(port.receiver.recv_async()).unwrap();
        assert_eq!(came.into_message().unwrap().0, number);
        sender.hear();
    }
}

#[test]
fn a_select_waits_for_a_port_and_a_channel() {
    let _watchdog = Watchdog::new("a_select_waits_for_a_port_and_a_channel");
    let port = own("select", PortOptions::new().messages(30).longest(64));
    let mut sender = process::sender(&port.name, 1);
    let (send, receive) = mpmc::unbounded();
    sender.begin("send 100 8");
    let other = std::thread::spawn(move || (0..100).for_each(|n| send.send(n).unwrap()));
    let (mut from_port, mut from_channel) = (0, 0);
    while from_port < 100 || from_channel < 100 {
        match port.receiver.try_recv() {
            Ok(came) => {
                assert_eq!(came.into_message().unwrap().0, from_port);
                from_port += 1;
                continue;
            }
            Err(why) => assert_eq!(why, PortRecvError::Empty),
        }
        let watch = port.receiver.watch();
        let select = Select::new().recv(&watch, |_| false);
        // The channel is closed once all has come.
        let select =
            if from_channel < 100 { select.recv(&receive, |n| n == Ok(from_channel)) } else { select };
        from_channel += u64::from(select.wait().unwrap());
    }
    other.join().unwrap();
    sender.hear();
}

#[test]
fn a_cancelled_thread_waits_no_more() {
    let _watchdog = Watchdog::new("a_cancelled_thread_waits_no_more");
    let port = own("cancelled", PortOptions::new().messages(1).longest(64));
    let receiver = port.receiver.clone();
    let waits = thread::spawn(move || receiver.recv());
    waits.thread().cancel();
    assert_eq!(waits.join().unwrap(), Err(PortRecvError::Cancelled));
    assert_eq!(port.receiver.recv_timeout(Duration::from_millis(1)), Err(PortRecvError::Timeout));
    let sender = PortSender::<Note>::connect(&port.name).unwrap();
    sender.send(&(0, vec![])).unwrap();
    let other = sender.clone();
    let waits = thread::spawn(move || other.send(&(1, vec![])));
    waits.thread().cancel();
    assert_eq!(waits.join().unwrap(), Err(underpass::port::PortSendError::Cancelled));
    let late = sender.send_timeout(&(1, vec![]), Duration::from_millis(1));
    assert_eq!(late, Err(underpass::port::PortSendError::Timeout));
    assert_eq!(port.message().message.0, 0);
    assert_eq!(port.receiver.try_recv(), Err(PortRecvError::Empty), "none of them was sent");
}

#[test]
fn a_port_that_is_not_served_any_more_ends_when_all_lanes_have() {
    let _watchdog = Watchdog::new("a_port_that_is_not_served_any_more_ends_when_all_lanes_have");
    let port = own("unserved", PortOptions::new().longest(64));
    let sender = PortSender::<Note>::connect(&port.name).unwrap();
    sender.send(&(7, vec![])).unwrap();
    let receiver = port.receiver.clone();
    let waits: Vec<_> = (0..3)
        .map(|_| {
            let receiver = receiver.clone();
            std::thread::spawn(move || receiver.messages().map(|note| note.0).collect::<Vec<_>>())
        })
        .collect();
    drop(port.running);
    drop(sender);
    let all: Vec<_> = waits.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    assert_eq!(all, [7]);
    assert_eq!(receiver.recv(), Err(PortRecvError::Disconnected));
}

#[test]
fn pressure_is_visible_on_both_sides() {
    let _watchdog = Watchdog::new("pressure_is_visible_on_both_sides");
    underpass_tests::Room::directory();
    let name = underpass_tests::Room::name("pressure");
    let mut owner = process::owner(&name, 16, None);
    let sender = PortSender::<Note>::connect(&name).unwrap();
    let now = sender.pressure();
    assert_eq!((now.queued, now.capacity, now.oldest, now.lanes), (0, 16, None, 1));
    (0..5).for_each(|n| assert!(sender.send(&(n, vec![])).is_ok()));
    let now = sender.pressure();
    assert!((now.queued, now.capacity) == (5, 16) && now.oldest.is_some(), "{now:?}");
    stop(owner.pid());
    assert_eq!(sender.pressure().other_side, OtherSide::Stopped);
    cont(owner.pid());
    owner.begin("take 6");
    until("a receiver that waits", || (sender.pressure().other_side == OtherSide::Waits).then_some(()));
    assert_eq!((sender.pressure().queued, sender.pressure().oldest), (0, None));
    sender.send(&(5, vec![])).unwrap();
    assert_eq!(owner.hear(), "took 0 1 2 3 4 5");
    owner.kill();
    until("the end", || (sender.pressure().other_side == OtherSide::Gone).then_some(()));
    let _ = std::fs::remove_file(underpass_tests::Room::directory().join(&name));

    let port = own("pressure-owned", PortOptions::new().messages(16).longest(64));
    assert_eq!((port.receiver.pressure().lanes, port.receiver.pressure().other_side), (0, OtherSide::Gone));
    let mut child = process::sender(&port.name, 2);
    child.ask("send 3 8");
    let now = port.receiver.pressure();
    assert!((now.queued, now.capacity, now.lanes) == (6, 32, 2) && now.oldest.is_some(), "{now:?}");
    let Arrival::Message(_) = port.receiver.recv().unwrap() else { panic!("a message") };
    assert_eq!(port.receiver.pressure().queued, 5);
}
