//! Loom models of whether a call was started: steps T1 to T4 against C1 to C3 and G1 to G3 of the
//! proof.

use super::{Receiver, Sender, ring, send, try_take};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use loom::thread;
use underpass_channel::{CancelWord, Cell, Fence, Payload, TakenCount, Wanted};

/// A channel with one slot.
struct Both {
    requests: Sender,
    incoming: Receiver,
    taken: AtomicU64,
    wanted: AtomicU64,
    closed: AtomicBool,
    /// Whether the procedure was run.
    executed: AtomicBool,
}

impl Both {
    fn new() -> Arc<Self> {
        let (requests, incoming) = ring(2);
        let (taken, wanted) = (AtomicU64::new(0), AtomicU64::new(0));
        let (closed, executed) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { requests, incoming, taken, wanted, closed, executed })
    }

    fn post(&self) {
        CancelWord::new(&self.wanted).set_deadline(None, false);
        send(&self.requests, &Cell { bounded: true, ..Cell::new(0, 7) });
    }

    /// Steps T1 to T4, once.
    fn serve(&self) {
        let Ok(incoming) = self.incoming.try_lock() else { return };
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        if incoming.take(&mut Payload::new()).unwrap().is_none() {
            return;
        }
        TakenCount::new(&self.taken).note(incoming.position());
        drop(incoming);
        if CancelWord::new(&self.wanted).read_after_take(Fence::Full) != Wanted::NoMore {
            self.executed.store(true, Ordering::Relaxed);
        }
    }

    /// Steps C1 and C2.
    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        drop(self.incoming.lock().unwrap());
    }

    fn is_untaken(&self) -> bool {
        let taken = TakenCount::new(&self.taken).count();
        self.requests.lock().unwrap().is_untaken(0, taken)
    }
}

#[test]
fn a_call_that_was_given_up_untaken_is_not_started() {
    loom::model(|| {
        let both = Both::new();
        both.post();
        let server = {
            let both = both.clone();
            thread::spawn(move || both.serve())
        };
        CancelWord::new(&both.wanted).cancel();
        fence(Ordering::SeqCst);
        let untaken = both.is_untaken();
        server.join().unwrap();
        // A call that was not taken until now is not executed later either.
        both.serve();
        assert!(!(untaken && both.executed.load(Ordering::Relaxed)));
    });
}

#[test]
fn a_closed_end_takes_no_more_requests() {
    loom::model(|| {
        let both = Both::new();
        both.post();
        let server = {
            let both = both.clone();
            thread::spawn(move || both.serve())
        };
        both.close();
        let untaken = both.is_untaken();
        server.join().unwrap();
        both.serve();
        assert_eq!(untaken, !both.executed.load(Ordering::Relaxed));
    });
}

#[test]
fn a_call_with_an_effect_was_counted() {
    // A domain that dies. Memory holds what its instructions stored, in their order.
    loom::model(|| {
        let both = Both::new();
        both.post();
        let server = {
            let both = both.clone();
            thread::spawn(move || both.serve())
        };
        if both.executed.load(Ordering::Relaxed) {
            fence(Ordering::Acquire);
            assert!(!both.is_untaken());
        }
        server.join().unwrap();
    });
}

#[test]
fn a_taker_takes_from_what_was_posted() {
    // Shows that the models above are not empty: here the call is executed.
    loom::model(|| {
        let both = Both::new();
        both.post();
        both.serve();
        assert!(both.executed.load(Ordering::Relaxed) && !both.is_untaken());
        assert!(try_take(&both.incoming).is_none());
    });
}
