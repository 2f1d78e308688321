//! Every interleaving of a sleep with calls and with work.

use loom::sync::atomic::{AtomicBool, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use underpass_processor::Parker;

/// What `Parker` holds while its owner sleeps.
const ASLEEP: u32 = 2;

/// A parker, and the kernel's side of its futex.
struct Place {
    parker: Parker,
    bells: Mutex<u32>,
    rung: Condvar,
    work: AtomicBool,
}

impl Place {
    fn new() -> Self {
        Self {
            parker: Parker::new(),
            bells: Mutex::new(0),
            rung: Condvar::new(),
            work: AtomicBool::new(false),
        }
    }

    fn unpark(&self) {
        if self.parker.announce() {
            *self.bells.lock().unwrap() += 1;
            self.rung.notify_all();
        }
    }

    /// As `sleep` does it: announce, fence, look for work, sleep unless the word has changed.
    fn sleep(&self) {
        if !self.parker.prepare() {
            return;
        }
        fence(Ordering::SeqCst);
        if !self.work.load(Ordering::Relaxed) {
            let mut bells = self.bells.lock().unwrap();
            let before = *bells;
            while *bells == before && self.parker.word().load(Ordering::SeqCst) == ASLEEP {
                bells = self.rung.wait(bells).unwrap();
            }
        }
        self.parker.wake_up();
    }
}

// A lost call is a deadlock, which loom reports.

#[test]
fn a_call_ends_a_sleep_or_keeps_it_from_beginning() {
    loom::model(|| {
        let place = Arc::new(Place::new());
        let caller = {
            let place = place.clone();
            thread::spawn(move || {
                place.work.store(true, Ordering::Relaxed);
                place.unpark();
            })
        };
        while !place.work.load(Ordering::Relaxed) {
            place.sleep();
        }
        caller.join().unwrap();
    });
}

#[test]
fn who_leaves_work_calls_a_sleeper_or_is_seen() {
    loom::model(|| {
        let place = Arc::new(Place::new());
        let other = place.clone();
        // As `unpark` does it: only who seems to sleep is called.
        let submitter = thread::spawn(move || {
            other.work.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if other.parker.asleep() {
                other.unpark();
            }
        });
        place.sleep();
        submitter.join().unwrap();
    });
}

#[test]
fn of_two_callers_one_wakes() {
    loom::model(|| {
        let place = Arc::new(Place::new());
        let callers: Vec<_> = (0..2)
            .map(|_| {
                let place = place.clone();
                thread::spawn(move || place.unpark())
            })
            .collect();
        place.sleep();
        callers.into_iter().for_each(|c| c.join().unwrap());
    });
}
