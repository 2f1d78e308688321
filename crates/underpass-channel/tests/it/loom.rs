//! Loom models of the rings and the doorbells: every interleaving of small cases. CONTRIBUTING.md
//! says how to run them.

use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use std::sync::Arc as Shared;
mod bell_byte;
mod donation;
mod lane;
mod rows;
mod started;
mod tasks;

use underpass_channel::{
    Attention, Cell, Doorbell, Fence, HeapMemory, INLINE, Payload, Receiving, Sending, Slots,
};

/// The kernel's side of a futex. The decision to sleep is taken under the lock that a waker holds.
struct Futex {
    word: AtomicU32,
    wakes: Mutex<u32>,
    woken: Condvar,
}

impl Futex {
    fn new() -> Self {
        Self { word: AtomicU32::new(0), wakes: Mutex::new(0), woken: Condvar::new() }
    }

    fn wake(&self) {
        *self.wakes.lock().unwrap() += 1;
        self.woken.notify_all();
    }

    /// Sleeps as the kernel does: not at all if the word differs from `expected`. A wake-up without
    /// a sleeper is forgotten.
    fn sleep(&self, expected: u32) {
        let mut wakes = self.wakes.lock().unwrap();
        let before = *wakes;
        if self.word.load(Ordering::SeqCst) != expected {
            return;
        }
        while *wakes == before {
            wakes = self.woken.wait(wakes).unwrap();
        }
    }
}

/// One end of a ring, under the lock that its domain has for it.
type Sender = Mutex<Sending<HeapMemory>>;
type Receiver = Mutex<Receiving<HeapMemory>>;

fn ring(lines: u32) -> (Sender, Receiver) {
    let words = Shared::new(HeapMemory::new(lines as usize * 8));
    (Mutex::new(Sending::new(words.clone(), 0, lines)), Mutex::new(Receiving::new(words, 0, lines)))
}

fn send(sending: &Sender, cell: &Cell) {
    sending.lock().unwrap().post(cell, u32::MAX);
}

fn try_take(receiving: &Receiver) -> Option<Cell> {
    let mut payload = Payload::new();
    let came = receiving.try_lock().ok()?.take(&mut payload).unwrap();
    came.map(|head| Cell::from_parts(head, payload))
}

/// Whether the ring is certainly empty.
fn is_empty(receiving: &Receiver) -> bool {
    receiving.try_lock().is_ok_and(|receiving| !receiving.pending())
}

/// Waits for the next cell and takes it.
fn take(receiving: &Receiver) -> Cell {
    loop {
        match try_take(receiving) {
            Some(cell) => return cell,
            None => thread::yield_now(),
        }
    }
}

#[test]
fn two_posters_and_one_taker_lose_nothing() {
    loom::model(|| {
        let (sending, receiving) = ring(2);
        let sending = Arc::new(sending);
        let posters: Vec<_> = (0..2u16)
            .map(|i| {
                let sending = sending.clone();
                thread::spawn(move || send(&sending, &Cell::inline(i, i, &[i as u8 + 1; 9]).unwrap()))
            })
            .collect();
        let mut seen = [false; 2];
        for _ in 0..2 {
            let cell = take(&receiving);
            assert_eq!(
                cell.bytes(),
                [cell.slot() as u8 + 1; 9],
                "a cell is whole when its sequence is there"
            );
            assert!(!std::mem::replace(&mut seen[usize::from(cell.slot())], true));
        }
        posters.into_iter().for_each(|p| p.join().unwrap());
        assert_eq!(seen, [true; 2]);
    });
}

#[test]
fn two_takers_take_each_cell_once() {
    loom::model(|| {
        let (sending, receiving) = ring(2);
        let receiving = Arc::new(receiving);
        let other = receiving.clone();
        let taker = thread::spawn(move || try_take(&other).is_some());
        send(&sending, &Cell::new(0, 7));
        let ours = try_take(&receiving).is_some();
        let theirs = taker.join().unwrap();
        assert!(!(ours && theirs));
        if !ours && !theirs {
            assert_eq!(take(&receiving).what(), 7);
        }
    });
}

#[test]
fn a_slot_is_room_for_a_request_and_for_a_reply() {
    // One slot, so two lines, and no window but the full ring: the third call has the line of the
    // first.
    bounded(3, || {
        let (requests, incoming) = ring(2);
        let (replies, outgoing) = ring(2);
        let long = |slot, what| Cell::inline(slot, what, &[what as u8; INLINE]).unwrap();
        let server = thread::spawn(move || {
            for _ in 0..3 {
                let request = take(&incoming);
                assert_eq!(request.bytes(), [request.what() as u8; INLINE]);
                send(&replies, &long(request.slot(), request.what() + 100));
            }
        });
        let slots = Slots::default();
        for what in 0..3 {
            let slot = slots.lease(1).unwrap();
            send(&requests, &long(slot.number(), what));
            assert_eq!(take(&outgoing).bytes(), [what as u8 + 100; INLINE]);
            slots.give_back(slot);
        }
        server.join().unwrap();
    });
}

#[test]
fn a_small_window_has_room_for_the_messages_under_way() {
    // Eight lines, of which the middle window has two. The third call has the line of the first,
    // and so has its reply. The fourth is posted while the third is under way, and widens the
    // window. The fifth lies behind the fourth.
    bounded(2, || {
        let (requests, incoming) = ring(8);
        let (replies, outgoing) = ring(8);
        let long = |slot, what| Cell::inline(slot, what, &[what as u8; INLINE]).unwrap();
        let server = thread::spawn(move || {
            for _ in 0..5 {
                let (head, request) = loop {
                    let mut payload = Payload::new();
                    match incoming.lock().unwrap().take(&mut payload).unwrap() {
                        Some(head) => break (head, Cell::from_parts(head, payload)),
                        None => thread::yield_now(),
                    }
                };
                assert_eq!(request.bytes(), [request.what() as u8; INLINE]);
                let reply = long(request.slot(), request.what() + 100);
                replies.lock().unwrap().post(&reply, head.behind());
            }
        });
        let post = |what, behind| requests.lock().unwrap().post(&long(0, what), behind);
        let is_answered = |what| assert_eq!(take(&outgoing).bytes(), [what as u8 + 100; INLINE]);
        for what in 0..2 {
            post(what, 0);
            is_answered(what);
        }
        post(2, 0);
        post(3, 1);
        is_answered(2);
        is_answered(3);
        post(4, 0);
        is_answered(4);
        server.join().unwrap();
    });
}

#[test]
fn cells_come_in_order_whatever_the_round_before_left() {
    // Each of the two lines still holds a whole cell of the round before, with a payload that looks
    // like the head of the next cell.
    bounded(3, || {
        let (sending, receiving) = ring(2);
        for sequence in [3, 4] {
            let forged = (1_u64 << 63 | 9 << 32 | sequence).to_le_bytes().repeat(INLINE / 8);
            send(&sending, &Cell::inline(0, 9, &forged).unwrap());
            take(&receiving);
        }
        let cells = [Cell::new(0, 1), Cell::inline(0, 2, &[2; 17]).unwrap()];
        let poster = thread::spawn(move || cells.iter().for_each(|cell| send(&sending, cell)));
        for (what, len) in [(1, 0), (2, 17)] {
            let cell = take(&receiving);
            assert_eq!((cell.what(), cell.bytes()), (what, &vec![what as u8; len][..]));
        }
        poster.join().unwrap();
    });
}

/// Steps P1 to P3 of the proof.
fn post(sending: &Sender, futex: &Futex, cell: &Cell) {
    send(sending, cell);
    match Attention::new(&futex.word).after_post(Fence::Full) {
        Doorbell::None => {}
        Doorbell::Wake => futex.wake(),
        Doorbell::Socket => panic!("no receiver has left the ring unpolled"),
    }
}

/// Steps S1 to S4 of the proof, until a cell has come.
fn take_or_sleep(receiving: &Receiver, futex: &Futex) -> Cell {
    loop {
        if let Some(cell) = try_take(receiving) {
            return cell;
        }
        let attention = Attention::new(&futex.word);
        let expected = attention.park(false);
        fence(Ordering::SeqCst);
        if is_empty(receiving) {
            futex.sleep(expected);
        }
        attention.look();
    }
}

/// Explores the model with at most `preemptions` preemptions, where all schedules would take too
/// long.
fn bounded(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

// A lost wake-up is a deadlock, which loom reports.

#[test]
fn a_sleeper_wakes_for_a_post() {
    loom::model(|| {
        let (sending, receiving) = ring(2);
        let futex = Arc::new(Futex::new());
        let other = futex.clone();
        let poster = thread::spawn(move || post(&sending, &other, &Cell::new(0, 7)));
        assert_eq!(take_or_sleep(&receiving, &futex).what(), 7);
        poster.join().unwrap();
    });
}

#[test]
fn a_sleeper_wakes_for_each_of_two_posts() {
    bounded(3, || {
        let (sending, receiving) = ring(2);
        let futex = Arc::new(Futex::new());
        let other = futex.clone();
        let poster = thread::spawn(move || {
            post(&sending, &other, &Cell::new(0, 1));
            post(&sending, &other, &Cell::new(1, 2));
        });
        assert_eq!(take_or_sleep(&receiving, &futex).what(), 1);
        assert_eq!(take_or_sleep(&receiving, &futex).what(), 2);
        poster.join().unwrap();
    });
}

#[test]
fn of_two_posters_the_one_that_clears_the_bit_rings() {
    bounded(2, || {
        let (sending, receiving) = ring(2);
        let sending = Arc::new(sending);
        let futex = Arc::new(Futex::new());
        let posters: Vec<_> = (0..2u16)
            .map(|i| {
                let (sending, futex) = (sending.clone(), futex.clone());
                thread::spawn(move || post(&sending, &futex, &Cell::new(i, i)))
            })
            .collect();
        take_or_sleep(&receiving, &futex);
        take_or_sleep(&receiving, &futex);
        posters.into_iter().for_each(|p| p.join().unwrap());
    });
}

#[test]
fn a_wake_up_is_not_lost_on_a_spare() {
    loom::model(|| {
        let (sending, receiving) = ring(2);
        let futex = Arc::new(Futex::new());
        let other = futex.clone();
        // The client posted while a processor of the server ran. Now the client is about to sleep,
        // and wakes a spare.
        let client = thread::spawn(move || {
            send(&sending, &Cell::new(0, 7));
            fence(Ordering::SeqCst);
            if Attention::new(&other.word).wake_spare() {
                other.wake();
            }
        });
        // A spare processor goes to sleep. It finds the cell, or the wake-up finds it.
        let expected = Attention::new(&futex.word).spare();
        fence(Ordering::SeqCst);
        if is_empty(&receiving) {
            futex.sleep(expected);
        }
        client.join().unwrap();
        assert_eq!(take(&receiving).what(), 7);
    });
}

/// A line that one side makes dormant while the other side posts on it. `active` stands for the
/// list of active lines, under its lock.
struct Dormancy {
    word: AtomicU32,
    active: Mutex<bool>,
}

impl Dormancy {
    /// As `lines::put_away` does it: steps A1, A2, the barrier and A4.
    fn make_dormant(&self, receiving: &Receiver) {
        let mut active = self.active.lock().unwrap();
        *active = false;
        Attention::new(&self.word).retire();
        fence(Ordering::SeqCst);
        if !is_empty(receiving) {
            Attention::new(&self.word).revive();
            *active = true;
        }
    }

    /// As the clerk does it when a byte comes over the socket.
    fn activate(&self) {
        let mut active = self.active.lock().unwrap();
        if !*active {
            Attention::new(&self.word).revive();
            *active = true;
        }
    }
}

#[test]
fn a_post_on_a_line_that_becomes_dormant_makes_it_active() {
    loom::model(|| {
        let (sending, receiving) = ring(2);
        let line = Arc::new(Dormancy { word: AtomicU32::new(0), active: Mutex::new(true) });
        let theirs = line.clone();
        let poster = thread::spawn(move || {
            send(&sending, &Cell::new(0, 7));
            if Attention::new(&theirs.word).after_post(Fence::Full) == Doorbell::Socket {
                theirs.activate();
            }
        });
        // A processor that has not seen yet that the line is dormant sleeps on its word once more.
        let late = line.clone();
        let sleeper = thread::spawn(move || {
            let attention = Attention::new(&late.word);
            attention.park(false);
            attention.look();
        });
        line.make_dormant(&receiving);
        poster.join().unwrap();
        sleeper.join().unwrap();
        assert!(*line.active.lock().unwrap(), "a processor looks at what was posted");
    });
}

#[test]
fn a_call_on_a_line_that_becomes_dormant_makes_it_active() {
    // The client's side. Making the line dormant asks whether a call is under way; the caller asks
    // whether the line is dormant.
    loom::model(|| {
        let slots = Arc::new(Slots::default());
        let dormant = Arc::new(AtomicBool::new(false));
        let active = Arc::new(Mutex::new(true));
        let caller = {
            let (slots, dormant, active) = (slots.clone(), dormant.clone(), active.clone());
            thread::spawn(move || {
                let slot = slots.lease(1).unwrap();
                fence(Ordering::SeqCst);
                if dormant.load(Ordering::Relaxed) {
                    let mut active = active.lock().unwrap();
                    dormant.store(false, Ordering::Relaxed);
                    *active = true;
                }
                slot
            })
        };
        let mut list = active.lock().unwrap();
        *list = false;
        dormant.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if slots.leased() > 0 {
            dormant.store(false, Ordering::Relaxed);
            *list = true;
        }
        drop(list);
        let slot = caller.join().unwrap();
        assert!(*active.lock().unwrap(), "a processor looks for the reply");
        slots.give_back(slot);
    });
}
