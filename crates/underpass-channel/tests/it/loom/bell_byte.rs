//! Loom models of a lane whose receiver leaves bell bytes: steps T1 to T3 of the proof of streams.

use super::bounded;
use loom::sync::atomic::{Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use std::sync::Arc as Shared;
use underpass_channel::{
    BellByte, BellByteNews, Doorbell, Fence, HeapLane, LaneReceiver, LaneSender, LaneSizes, WhenFull,
};

/// The socket, and what the kernel reports of the receiver's end.
struct Socket {
    bytes: u32,
    /// A byte was taken since the last report, or there was none yet.
    edge: bool,
    hung_up: bool,
}

struct Bell {
    socket: Mutex<Socket>,
    reports: Condvar,
    byte: Mutex<BellByte>,
    /// What wakes the receiver, W4.
    woken: Mutex<bool>,
    wakes: Condvar,
}

impl Bell {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            socket: Mutex::new(Socket { bytes: 0, edge: true, hung_up: false }),
            reports: Condvar::new(),
            byte: Mutex::new(BellByte::default()),
            woken: Mutex::new(false),
            wakes: Condvar::new(),
        })
    }

    /// *Ring, T2.*
    fn ring(&self) {
        let mut socket = self.socket.lock().unwrap();
        if socket.bytes > 0 {
            socket.bytes -= 1;
            socket.edge = true;
            self.reports.notify_all();
        }
    }

    fn hang_up(&self) {
        self.socket.lock().unwrap().hung_up = true;
        self.reports.notify_all();
    }

    /// *Listen, T1.*
    fn listen(&self) {
        let mut byte = self.byte.lock().unwrap();
        if !byte.is_left() {
            let mut socket = self.socket.lock().unwrap();
            socket.bytes += 1;
            assert!(socket.bytes <= 2, "one, and one more if the first report was taken for a ring");
            byte.was_left();
        }
    }

    fn wake(&self) {
        *self.woken.lock().unwrap() = true;
        self.wakes.notify_all();
    }

    /// *Hear, T3*, by the thread of the bells, until the sender hangs up.
    fn hear(&self) {
        loop {
            let mut socket = self.socket.lock().unwrap();
            while !socket.edge && !socket.hung_up {
                socket = self.reports.wait(socket).unwrap();
            }
            let edge = std::mem::take(&mut socket.edge);
            drop(socket);
            if !edge {
                return;
            }
            let news = self.byte.lock().unwrap().hear();
            match news {
                BellByteNews::Rang => self.wake(),
                BellByteNews::Nothing => {}
                BellByteNews::Flood => panic!("the sender is honest"),
            }
        }
    }

    /// Step W4.
    fn wait(&self) {
        let mut woken = self.woken.lock().unwrap();
        while !*woken {
            woken = self.wakes.wait(woken).unwrap();
        }
        *woken = false;
    }
}

fn send(lane: &mut LaneSender<HeapLane>, bell: &Bell) {
    lane.post(&[7], 0).unwrap();
    if lane.after_post(Fence::Full) != Doorbell::None {
        bell.ring();
    }
}

fn receive(lane: &mut LaneReceiver<HeapLane>, bell: &Bell) {
    while lane.take(&mut Vec::new()).expect("the sender is honest").is_none() {
        bell.listen();
        lane.announce_wait();
        fence(Ordering::SeqCst);
        if lane.posted() == lane.position() {
            bell.wait();
        }
    }
}

/// A sender of `count` messages, which are all received.
fn hears_of_all(count: u32) {
    let sizes = LaneSizes::new(count as usize, 8, WhenFull::Refuse).unwrap();
    let memory = Shared::new(HeapLane::new(sizes));
    let (mut sender, mut receiver) =
        (LaneSender::new(memory.clone(), sizes), LaneReceiver::new(memory, sizes));
    let bell = Bell::new();
    let (rings, hears) = (bell.clone(), bell.clone());
    let hearing = thread::spawn(move || hears.hear());
    let sending = thread::spawn(move || {
        (0..count).for_each(|_| send(&mut sender, &rings));
    });
    (0..count).for_each(|_| receive(&mut receiver, &bell));
    sending.join().unwrap();
    bell.hang_up();
    hearing.join().unwrap();
}

// A lost wake-up is a deadlock, which loom reports.

#[test]
fn a_receiver_that_left_its_byte_hears_of_a_message() {
    bounded(3, || hears_of_all(1));
}

#[test]
fn a_receiver_that_waits_again_and_again_hears_of_each_message() {
    bounded(2, || hears_of_all(3));
}
