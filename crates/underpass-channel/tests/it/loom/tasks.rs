//! Loom models of tasks that wait for replies: steps W1 to W5 of `README.md`, over the real rings
//! and attention words. The state under the client's lock is modelled here in small.

use super::{Receiver, Sender, bounded, ring, send};
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use underpass_channel::{Attention, Cell, Doorbell, Fence, Payload};

/// A linkage record, and the waker that the waker table has for it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    Idle,
    Expected,
    /// The number of the task's poll that left the waker.
    Watched(u32),
    Abandoned,
    Answered,
}

/// The kernel's side of a byte over the socket, and an executor's side of a waker: a ring before
/// the wait ends the wait.
#[derive(Default)]
struct Rings {
    rung: Mutex<Option<u32>>,
    rung_condvar: Condvar,
}

impl Rings {
    fn ring(&self, what: u32) {
        *self.rung.lock().unwrap() = Some(what);
        self.rung_condvar.notify_all();
    }

    fn wait(&self) -> u32 {
        let mut rung = self.rung.lock().unwrap();
        loop {
            match rung.take() {
                Some(what) => return what,
                None => rung = self.rung_condvar.wait(rung).unwrap(),
            }
        }
    }
}

/// The client's end of the channel.
struct Client {
    word: AtomicU32,
    receiving: Receiver,
    /// The lock and the state under it.
    calls: Mutex<[Call; 2]>,
    tasks: AtomicU32,
    executors: [Rings; 2],
    socket: Rings,
}

/// What the clerk receives at the end of a model.
const END: u32 = 0;
const BELL: u32 = 1;

impl Client {
    fn new(calls: [Call; 2]) -> (Sender, Arc<Self>) {
        let (sending, receiving) = ring(4);
        let client = Self {
            word: AtomicU32::new(0),
            receiving,
            calls: Mutex::new(calls),
            tasks: AtomicU32::new(0),
            executors: [Rings::default(), Rings::default()],
            socket: Rings::default(),
        };
        (sending, Arc::new(client))
    }

    /// Takes the replies that have come, as `take_replies` does.
    fn poll(&self) {
        loop {
            let mut calls = self.calls.lock().unwrap();
            let Some(head) = self.receiving.lock().unwrap().take(&mut Payload::new()).unwrap() else {
                return;
            };
            let slot = usize::from(head.slot());
            let woken = match calls[slot] {
                Call::Expected => None,
                Call::Watched(poll) => {
                    self.tasks.fetch_sub(1, Ordering::SeqCst);
                    Some(poll)
                }
                Call::Abandoned => {
                    calls[slot] = Call::Idle;
                    continue;
                }
                other => panic!("a reply to a call that is {other:?}"),
            };
            calls[slot] = Call::Answered;
            drop(calls);
            if let Some(poll) = woken {
                self.executors[slot].ring(poll);
            }
        }
    }

    /// Steps W2 and W3. `false` if the reply has come.
    fn watch_and_arm(&self, slot: usize, poll: u32) -> bool {
        let mut calls = self.calls.lock().unwrap();
        match calls[slot] {
            Call::Expected => {
                self.tasks.fetch_add(1, Ordering::SeqCst);
                calls[slot] = Call::Watched(poll);
            }
            Call::Watched(_) => calls[slot] = Call::Watched(poll),
            _ => return false,
        }
        drop(calls);
        fence(Ordering::SeqCst);
        if !Attention::new(&self.word).is_unpolled() {
            Attention::new(&self.word).set_unpolled();
            fence(Ordering::SeqCst);
            self.poll();
        }
        self.calls.lock().unwrap()[slot] != Call::Answered
    }

    /// Step W5: the clerk has heard the doorbell, or another thread has cleared the bits.
    fn rearm(&self) {
        if self.tasks.load(Ordering::SeqCst) > 0 {
            Attention::new(&self.word).set_unpolled();
        }
        Attention::new(&self.word).park(false);
        fence(Ordering::SeqCst);
        self.poll();
    }

    fn is_leased(&self) -> bool {
        self.calls.lock().unwrap().iter().any(|call| *call != Call::Idle)
    }

    fn clerk(&self) {
        while self.socket.wait() == BELL {
            self.poll();
            if self.is_leased() {
                self.rearm();
            }
        }
    }

    /// A task that waits for the reply of `slot`, with another waker at each of its `polls`.
    fn task(&self, slot: usize, polls: u32) {
        let mut waits = true;
        for poll in 0..polls {
            waits = waits && self.watch_and_arm(slot, poll);
        }
        if waits {
            assert_eq!(self.executors[slot].wait(), polls - 1, "the waker of the last poll is woken");
        }
        let mut calls = self.calls.lock().unwrap();
        assert_eq!(std::mem::replace(&mut calls[slot], Call::Idle), Call::Answered);
    }
}

/// The server: replies to the calls of `slots`, and notifies the client as it must.
fn reply(sending: &Sender, client: &Client, slots: &[u16]) {
    for &slot in slots {
        send(sending, &Cell::new(slot, 7));
        match Attention::new(&client.word).after_post(Fence::Full) {
            Doorbell::Socket => client.socket.ring(BELL),
            Doorbell::Wake | Doorbell::None => {}
        }
    }
}

/// Runs `task` beside the server, which replies to `slots`, and the clerk.
fn model(
    most: usize,
    calls: [Call; 2],
    slots: &'static [u16],
    task: impl Fn(&Arc<Client>) + Send + Sync + 'static,
) {
    bounded(most, move || {
        let (sending, client) = Client::new(calls);
        let (theirs, heard) = (client.clone(), client.clone());
        let server = thread::spawn(move || reply(&sending, &theirs, slots));
        let clerk = thread::spawn(move || heard.clerk());
        task(&client);
        server.join().unwrap();
        client.socket.ring(END);
        clerk.join().unwrap();
        assert_eq!(client.tasks.load(Ordering::SeqCst), 0);
        client.poll();
        assert!(!client.is_leased(), "every slot has come back");
    });
}

// Fails if the waker is stored after the check whether the call is settled. Fails without the fence
// of W3, and without its poll.
#[test]
fn a_task_is_woken_by_the_waker_of_its_last_poll() {
    model(3, [Call::Expected, Call::Idle], &[0], |client| client.task(0, 2));
}

// Fails if the clerk has heard the doorbell for the first reply, and does not arm for the second.
#[test]
fn a_task_is_woken_though_the_doorbell_was_for_another_call() {
    model(2, [Call::Abandoned, Call::Expected], &[0, 1], |client| client.task(1, 1));
}

// Fails if the thread that has cleared the bits does not look for tasks after a fence.
#[test]
fn a_processor_that_wakes_leaves_tasks_their_doorbell() {
    model(2, [Call::Expected, Call::Idle], &[0], |client| {
        let other = client.clone();
        let wakes = thread::spawn(move || {
            Attention::new(&other.word).look();
            fence(Ordering::SeqCst);
            if other.tasks.load(Ordering::SeqCst) > 0 {
                other.rearm();
            }
        });
        client.task(0, 1);
        wakes.join().unwrap();
    });
}

// Fails if a dropped task leaves its call watched.
#[test]
fn a_task_that_is_dropped_leaves_its_slot_to_the_reply_or_takes_it_along() {
    model(3, [Call::Expected, Call::Idle], &[0], |client| {
        client.watch_and_arm(0, 0);
        let mut calls = client.calls.lock().unwrap();
        match calls[0] {
            Call::Watched(_) => {
                client.tasks.fetch_sub(1, Ordering::SeqCst);
                calls[0] = Call::Abandoned;
            }
            Call::Answered => calls[0] = Call::Idle,
            other => panic!("a call that waits is {other:?}"),
        }
    });
}
