//! Loom models of lanes: steps A1 to A4 against B1 to B4 and W1 to W4 of the proof.

use super::bounded;
use loom::sync::atomic::{Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use std::sync::Arc as Shared;
use underpass_channel::{Doorbell, Fence, HeapLane, LaneReceiver, LaneSender, LaneSizes, Unposted, WhenFull};

/// The socket of one direction: a byte stays until it is read.
struct Bell {
    rung: Mutex<u32>,
    told: Condvar,
}

impl Bell {
    fn new() -> Arc<Self> {
        Arc::new(Self { rung: Mutex::new(0), told: Condvar::new() })
    }

    fn ring(&self, doorbell: Doorbell) {
        match doorbell {
            Doorbell::None => {}
            Doorbell::Socket => {
                *self.rung.lock().unwrap() += 1;
                self.told.notify_all();
            }
            Doorbell::Wake => panic!("no end of a lane sleeps on its word"),
        }
    }

    /// Step W4.
    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while *rung == 0 {
            rung = self.told.wait(rung).unwrap();
        }
        *rung = 0;
    }
}

struct Sender {
    lane: LaneSender<HeapLane>,
    /// Of the receiver.
    rings: Arc<Bell>,
    waits: Arc<Bell>,
}

struct Receiver {
    lane: LaneReceiver<HeapLane>,
    rings: Arc<Bell>,
    waits: Arc<Bell>,
}

fn lane(items: usize, when_full: WhenFull) -> (Sender, Receiver) {
    let sizes = LaneSizes::with_bytes(items, 8, 0, when_full).unwrap();
    let memory = Shared::new(HeapLane::new(sizes));
    let (posted, taken) = (Bell::new(), Bell::new());
    let sender =
        Sender { lane: LaneSender::new(memory.clone(), sizes), rings: posted.clone(), waits: taken.clone() };
    (sender, Receiver { lane: LaneReceiver::new(memory, sizes), rings: taken, waits: posted })
}

impl Sender {
    /// Posts the next number, and waits for room.
    fn send(&mut self) {
        loop {
            let number = self.lane.posted();
            match self.lane.post(&number.to_le_bytes(), number as u32) {
                Ok(posted) => {
                    assert_eq!(posted, number);
                    return self.rings.ring(self.lane.after_post(Fence::Full));
                }
                Err(why) => assert_eq!(why, Unposted::Full),
            }
            self.lane.announce_wait();
            fence(Ordering::SeqCst);
            if !self.lane.could_post(8).unwrap() {
                self.waits.wait();
            }
            self.lane.end_wait();
        }
    }
}

impl Receiver {
    /// Takes the next message, if there is one. Returns its number and how many were lost.
    fn take(&mut self) -> Option<(u64, u64)> {
        let mut bytes = Vec::new();
        let head = self.lane.take(&mut bytes).expect("the sender is honest")?;
        assert_eq!(bytes, head.number.to_le_bytes(), "a message is whole");
        self.rings.ring(self.lane.after_take(Fence::Full));
        Some((head.number, head.lost))
    }

    /// Takes the next message, and waits for it.
    fn receive(&mut self) -> (u64, u64) {
        loop {
            if let Some(came) = self.take() {
                return came;
            }
            self.lane.announce_wait();
            fence(Ordering::SeqCst);
            if !self.lane.is_ready() {
                self.waits.wait();
            }
            self.lane.end_wait();
        }
    }
}

// A lost wake-up is a deadlock, which loom reports.

#[test]
fn a_receiver_that_waits_hears_of_a_message() {
    loom::model(|| {
        let (mut sender, mut receiver) = lane(2, WhenFull::Refuse);
        let sending = thread::spawn(move || sender.send());
        assert_eq!(receiver.receive(), (0, 0));
        sending.join().unwrap();
    });
}

#[test]
fn a_sender_that_waits_hears_of_room() {
    bounded(3, || {
        let (mut sender, mut receiver) = lane(1, WhenFull::Refuse);
        let sending = thread::spawn(move || (0..2).for_each(|_| sender.send()));
        assert_eq!(receiver.receive(), (0, 0));
        assert_eq!(receiver.receive(), (1, 0));
        sending.join().unwrap();
    });
}

#[test]
fn no_untaken_message_is_overwritten_with_credits() {
    bounded(2, || {
        // The third message lies where the first one lay.
        let (mut sender, mut receiver) = lane(2, WhenFull::Refuse);
        let sending = thread::spawn(move || (0..4).for_each(|_| sender.send()));
        (0..4).for_each(|number| assert_eq!(receiver.receive(), (number, 0)));
        sending.join().unwrap();
    });
}

#[test]
fn no_overwritten_message_is_received() {
    bounded(3, || {
        let (mut sender, mut receiver) = lane(2, WhenFull::DropOldest);
        let sending = thread::spawn(move || (0..4).for_each(|_| sender.send()));
        let (mut next, mut told) = (0, Vec::new());
        for _ in 0..2 {
            told.extend(receiver.take());
        }
        sending.join().unwrap();
        while let Some(came) = receiver.take() {
            told.push(came);
        }
        for (number, lost) in told {
            assert_eq!(number, next + lost, "losses are told in place");
            next = number + 1;
        }
        assert_eq!(next, 4, "the last message is there");
    });
}

#[test]
fn a_receiver_that_waits_hears_of_each_count_once() {
    bounded(2, || {
        let (mut sender, mut receiver) = lane(1, WhenFull::Refuse);
        let sending = thread::spawn(move || {
            for _ in 0..2 {
                sender.lane.count(0, 1);
                sender.rings.ring(sender.lane.after_post(Fence::Full));
            }
        });
        let mut sum = 0;
        while sum < 2 {
            sum += receiver.lane.take_counts().into_iter().map(|(_, more)| more).sum::<u64>();
            receiver.lane.announce_wait();
            fence(Ordering::SeqCst);
            if sum < 2 && !receiver.lane.is_ready() {
                receiver.waits.wait();
            }
            receiver.lane.end_wait();
        }
        assert_eq!(sum, 2);
        sending.join().unwrap();
    });
}

#[test]
fn all_messages_are_there_when_the_sender_has_finished() {
    loom::model(|| {
        let (mut sender, mut receiver) = lane(2, WhenFull::Refuse);
        let sending = thread::spawn(move || {
            sender.send();
            sender.lane.finish();
        });
        if receiver.lane.is_finished() {
            assert_eq!(receiver.take(), Some((0, 0)));
        }
        sending.join().unwrap();
    });
}

#[test]
fn what_a_receiver_has_not_taken_comes_back() {
    loom::model(|| {
        let (mut sender, mut receiver) = lane(2, WhenFull::Refuse);
        sender.send();
        let receiving = thread::spawn(move || receiver.take().map(|(number, _)| number));
        sender.send();
        let received = receiving.join().unwrap();
        let back: Vec<_> = sender.lane.unreceived().into_iter().map(|(number, _)| number).collect();
        assert_eq!(received.into_iter().chain(back).collect::<Vec<_>>(), [0, 1]);
    });
}
