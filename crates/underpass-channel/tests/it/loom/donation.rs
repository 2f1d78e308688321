//! Loom models of donation: steps D1 to D6 against L1 to L6 of the proof, and the races that it
//! names.

use super::{Futex, Receiver, Sender, bounded, is_empty, post, ring, send, take, try_take};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering, fence};
use loom::thread;
use underpass_channel::{Attention, Cell, Donation, Donee, Doorbell, Fence, Owed};

/// What a listener shares with its donors, and the server's ends of the rings.
struct Server {
    word: Arc<Futex>,
    client: Arc<Futex>,
    requests: Receiver,
    replies: Sender,
}

/// The client's ends of the rings, and the two words.
struct Client {
    attention: Arc<Futex>,
    word: Arc<Futex>,
    own: Arc<Futex>,
    requests: Sender,
    replies: Receiver,
}

/// A client, and a server whose natives sleep.
fn pair(slots: u32) -> (Client, Server) {
    let [attention, word, own] = [(); 3].map(|()| Arc::new(Futex::new()));
    let ((requests, incoming), (outgoing, replies)) = (ring(2 * slots), ring(2 * slots));
    Attention::new(&attention.word).park(false);
    let server = Server { word: word.clone(), client: own.clone(), requests: incoming, replies: outgoing };
    (Client { attention, word, own, requests, replies }, server)
}

fn answer(request: &Cell) -> Cell {
    Cell::new(request.slot(), request.what() + 100)
}

impl Server {
    /// Step L1.
    fn listen(&self) -> u32 {
        Donation::new(&self.word.word).listen(false)
    }

    /// Steps L3 to L6, once.
    fn serve(&self, expected: u32) {
        let donation = Donation::new(&self.word.word);
        self.word.sleep(expected);
        // The protocol may not rely on the kernel's lock, so `came` has to synchronize.
        if donation.came() {
            while let Some(request) = try_take(&self.requests) {
                send(&self.replies, &answer(&request));
            }
            self.recall();
        }
    }

    /// Step L6.
    fn recall(&self) {
        if Attention::new(&self.client.word).recall() == Doorbell::Wake {
            self.client.wake();
        }
    }
}

impl Client {
    /// Step D1.
    fn post(&self, slot: u16) {
        send(&self.requests, &Cell::new(slot, slot));
        assert!(Attention::new(&self.attention.word).is_away(Fence::Full), "all natives sleep");
    }

    /// Steps D3 to D6, without a barrier. `native` stands for what D5 rings for. Returns whether
    /// the server is still owed a call.
    fn donate(&self, native: impl FnOnce()) -> bool {
        let attention = Attention::new(&self.own.word);
        let expected = attention.park(false);
        let quiet = self.is_quiet();
        if quiet {
            if Donation::new(&self.word.word).donate() == Some(Donee::Asleep) {
                self.word.wake();
                self.own.sleep(expected);
            } else if Attention::new(&self.attention.word).claim() == Doorbell::Wake {
                native();
            }
        }
        attention.look();
        !quiet
    }

    /// Steps S1 to S4.
    fn sleep(&self) {
        let attention = Attention::new(&self.own.word);
        let expected = attention.park(false);
        fence(Ordering::SeqCst);
        if self.is_quiet() {
            self.own.sleep(expected);
        }
        attention.look();
    }

    fn is_quiet(&self) -> bool {
        is_empty(&self.replies)
    }
}

#[test]
fn a_processor_is_donated_and_comes_back() {
    loom::model(|| {
        let (client, server) = pair(1);
        let server = Arc::new(server);
        let other = server.clone();
        let listener = thread::spawn(move || other.serve(other.listen()));
        client.post(7);
        // If no listener is there yet, a native serves.
        let mut rang = false;
        assert!(!client.donate(|| rang = true), "nobody else replies");
        if rang {
            let request = take(&server.requests);
            send(&server.replies, &answer(&request));
        }
        let reply = try_take(&client.replies);
        assert_eq!(reply.expect("a donor that wakes has the reply").what(), 107);
        if rang {
            // Ends the listener.
            while Donation::new(&client.word.word).donate().is_none() {
                thread::yield_now();
            }
            client.word.wake();
        }
        listener.join().unwrap();
    });
}

#[test]
fn a_reply_of_another_processor_is_found_in_the_end() {
    bounded(3, || {
        let (client, server) = pair(2);
        let server = Arc::new(server);
        let expected = server.listen();
        client.post(0);
        client.post(1);
        // A native has taken the first call, and posts its reply at any time.
        let request = take(&server.requests);
        let (native, lent) = (server.clone(), server.clone());
        let native = thread::spawn(move || post(&native.replies, &native.client, &answer(&request)));
        let listener = thread::spawn(move || lent.serve(expected));
        let (mut owed, mut replies) = (true, 0);
        while replies < 2 {
            match try_take(&client.replies) {
                Some(_) => replies += 1,
                None if owed => owed = client.donate(|| panic!("the listener listens")),
                None => client.sleep(),
            }
        }
        native.join().unwrap();
        listener.join().unwrap();
    });
}

#[test]
fn of_two_donors_one_finds_the_listener() {
    loom::model(|| {
        let word = Arc::new(Futex::new());
        let donation = Donation::new(&word.word);
        let expected = donation.listen(false);
        let donors: Vec<_> = (0..2)
            .map(|_| {
                let word = word.clone();
                thread::spawn(move || {
                    let donated = Donation::new(&word.word).donate().is_some();
                    if donated {
                        word.wake();
                    }
                    donated
                })
            })
            .collect();
        word.sleep(expected);
        let found = donors.into_iter().map(|donor| donor.join().unwrap()).filter(|&donated| donated).count();
        assert!(found == 1 && donation.came());
    });
}

#[test]
fn a_listener_that_withdraws_has_the_processor_or_nobody_gives_it() {
    loom::model(|| {
        let word = Arc::new(Futex::new());
        let donation = Donation::new(&word.word);
        donation.listen(false);
        let posted = Arc::new(AtomicBool::new(false));
        let (other, theirs) = (word.clone(), posted.clone());
        let donor = thread::spawn(move || {
            theirs.store(true, Ordering::Relaxed);
            Donation::new(&other.word).donate().is_some()
        });
        let withdrawn = donation.withdraw();
        if !withdrawn {
            assert!(posted.load(Ordering::Relaxed), "the listener sees what was posted before the donation");
        }
        assert_ne!(donor.join().unwrap(), withdrawn);
    });
}

#[test]
fn a_thread_that_settles_for_another_has_its_call_served() {
    bounded(3, || {
        let (client, server) = pair(2);
        let client = Arc::new(client);
        let owed = Arc::new(Owed::default());
        let expected = server.listen();
        let (poster, note) = (client.clone(), owed.clone());
        let poster = thread::spawn(move || {
            poster.post(0);
            note.note();
        });
        let (donor, note) = (client.clone(), owed.clone());
        let donor = thread::spawn(move || {
            donor.post(1);
            note.note();
            note.settle();
            assert_eq!(Donation::new(&donor.word.word).donate(), Some(Donee::Asleep));
            donor.word.wake();
        });
        server.serve(expected);
        let served = (0..2).take_while(|_| try_take(&client.replies).is_some()).count();
        poster.join().unwrap();
        donor.join().unwrap();
        assert!(served == 2 || owed.is_noted(), "{served} calls were served, and none is owed");
    });
}

#[test]
fn a_donor_that_gives_way_and_then_sleeps_has_its_reply() {
    loom::model(|| {
        let (client, server) = pair(1);
        let server = Arc::new(server);
        // The listener has returned a processor before.
        assert!(!Donation::new(&server.word.word).give_back(true));
        let other = server.clone();
        let listener = thread::spawn(move || {
            let donation = Donation::new(&other.word.word);
            if !donation.came() {
                // Step H4 found nothing, so L1 follows.
                other.word.sleep(donation.listen(true));
            }
            assert!(donation.came(), "only the donor wakes the listener");
            let request = try_take(&other.requests).expect("the post comes before the processor");
            send(&other.replies, &answer(&request));
            // Step H3.
            let doorbell = match donation.give_back(true) {
                true => Attention::new(&other.client.word).after_post(Fence::Full),
                false => Attention::new(&other.client.word).recall(),
            };
            if doorbell == Doorbell::Wake {
                other.client.wake();
            }
        });
        client.post(7);
        let donation = Donation::new(&client.word.word);
        match donation.give_way() {
            Some(Donee::Asleep) => client.word.wake(),
            Some(Donee::StandsBy) => {}
            None => panic!("it listens or stands by"),
        }
        let back = donation.is_back();
        let reply = try_take(&client.replies);
        assert!(reply.is_some() || !back, "a donor that has its processor back has the reply");
        let reply = reply.or_else(|| {
            client.sleep();
            try_take(&client.replies)
        });
        assert_eq!(reply.expect("a donor that wakes has the reply").what(), 107);
        listener.join().unwrap();
    });
}
