//! Every interleaving of a sleep with unparks and with new work.

use loom::sync::atomic::{AtomicBool, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use underpass_processor::Parker;

/// The value of the parker's word while its owner sleeps.
const ASLEEP: u32 = 2;

/// A parker, and the kernel's side of its futex.
struct Sleeper {
    parker: Parker,
    wake_ups: Mutex<u32>,
    woken: Condvar,
    work: AtomicBool,
}

impl Sleeper {
    fn new() -> Self {
        Self {
            parker: Parker::new(),
            wake_ups: Mutex::new(0),
            woken: Condvar::new(),
            work: AtomicBool::new(false),
        }
    }

    fn unpark(&self) {
        if self.parker.announce() {
            *self.wake_ups.lock().unwrap() += 1;
            self.woken.notify_all();
        }
    }

    /// As the crate's `sleep` does it: announce, fence, look for work, sleep unless the word has
    /// changed.
    fn sleep(&self) {
        if !self.parker.prepare() {
            return;
        }
        fence(Ordering::SeqCst);
        if !self.work.load(Ordering::Relaxed) {
            let mut wake_ups = self.wake_ups.lock().unwrap();
            let before = *wake_ups;
            while *wake_ups == before && self.parker.word().load(Ordering::SeqCst) == ASLEEP {
                wake_ups = self.woken.wait(wake_ups).unwrap();
            }
        }
        self.parker.wake_up();
    }
}

// A lost unpark is a deadlock, which loom reports.

#[test]
fn an_unpark_ends_a_sleep_or_keeps_it_from_beginning() {
    loom::model(|| {
        let sleeper = Arc::new(Sleeper::new());
        let caller = {
            let sleeper = sleeper.clone();
            thread::spawn(move || {
                sleeper.work.store(true, Ordering::Relaxed);
                sleeper.unpark();
            })
        };
        while !sleeper.work.load(Ordering::Relaxed) {
            sleeper.sleep();
        }
        caller.join().unwrap();
    });
}

#[test]
fn new_work_wakes_the_sleeper_or_is_seen_by_it() {
    loom::model(|| {
        let sleeper = Arc::new(Sleeper::new());
        let other = sleeper.clone();
        // As threads do it that leave work: unpark only a sleeper that seems to be asleep.
        let submitter = thread::spawn(move || {
            other.work.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if other.parker.asleep() {
                other.unpark();
            }
        });
        sleeper.sleep();
        submitter.join().unwrap();
    });
}

#[test]
fn one_of_two_concurrent_unparks_wakes() {
    loom::model(|| {
        let sleeper = Arc::new(Sleeper::new());
        let callers: Vec<_> = (0..2)
            .map(|_| {
                let sleeper = sleeper.clone();
                thread::spawn(move || sleeper.unpark())
            })
            .collect();
        sleeper.sleep();
        callers.into_iter().for_each(|c| c.join().unwrap());
    });
}
