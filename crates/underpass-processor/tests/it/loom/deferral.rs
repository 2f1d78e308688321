//! A signal at every instruction of a thread that holds preemption off. No signal is lost, and none
//! interrupts a critical section.

use super::permits::Domain;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use std::cell::Cell;
use underpass_processor::permits::deferral::{self, DeferralWord, UNMARKED};
use underpass_processor::permits::protocol;
use underpass_processor::permits::state;
use underpass_seam::LocalWord;

/// The word of an activation. If the signal has been sent, it is delivered before the next access
/// to the word.
struct Interrupted {
    word: LocalWord,
    domain: Arc<Domain>,
    signal: Arc<AtomicBool>,
    /// It must not give way now.
    held: Cell<bool>,
}

impl Interrupted {
    /// The kernel's part: the whole handler runs on top of the thread.
    fn deliver(&self) {
        let state = &self.domain.states[0];
        let asked = || matches!(state.hint(), state::PREEMPTING | state::BLOCKED);
        if self.signal.swap(false, Ordering::AcqRel) && asked() {
            deferral::on_signal(&self.word, || self.give_way());
        }
    }

    fn give_way(&self) {
        assert!(!self.held.get(), "preempted in a critical section");
        protocol::give_way(&*self.domain, &self.domain.states[0]);
    }

    fn leave(&self) {
        self.held.set(deferral::count(&self.word) > 1);
        if deferral::leave(self) {
            deferral::answer(self, || self.give_way());
        }
    }
}

impl DeferralWord for Interrupted {
    fn get(&self) -> u32 {
        self.deliver();
        self.word.get()
    }

    fn increment(&self) {
        self.deliver();
        self.word.increment();
    }

    fn add(&self, n: u32) -> bool {
        self.deliver();
        self.word.add(n)
    }

    fn keep(&self, mask: u32) {
        self.deliver();
        self.word.keep(mask);
    }

    fn set(&self, mask: u32) {
        self.deliver();
        self.word.set(mask);
    }
}

/// Runs `sections` while a monitor asks the activation to give way `times` times.
fn model(times: u32, sections: impl Fn(&Interrupted) + Send + Sync + 'static) {
    loom::model(move || {
        let domain = Domain::new(1, 1, &[]);
        let signal = Arc::new(AtomicBool::new(false));
        let monitor = {
            let (domain, signal) = (domain.clone(), signal.clone());
            thread::spawn(move || {
                for _ in 0..times {
                    if domain.states[0].advance(state::RUNNING, state::PREEMPTING) {
                        // Not a store: loom would let a store that happened before a swap come
                        // after it.
                        signal.swap(true, Ordering::AcqRel);
                    }
                }
            })
        };
        let own = Interrupted { word: LocalWord::new(UNMARKED), domain, signal, held: Cell::new(false) };
        sections(&own);
        monitor.join().unwrap();
        // The signal comes in the end.
        own.deliver();
        assert_eq!(own.word.get(), UNMARKED, "no section is left, and no mark");
        assert_eq!(own.domain.states[0].get(), state::RUNNING, "it has given way, and come back");
        own.domain.adds_up();
    });
}

#[test]
fn a_signal_in_nested_sections_is_answered_after_the_last() {
    model(2, |own| {
        own.increment();
        own.held.set(true);
        own.increment();
        own.leave();
        own.leave();
    });
}

#[test]
fn a_signal_in_the_sections_of_a_suspended_thread_is_answered_after_them() {
    model(1, |own| {
        own.increment();
        own.held.set(true);
        let held = deferral::suspend(own);
        assert_eq!(held, 1);
        // The scheduler answers in a critical section of its own.
        deferral::unmark(own);
        own.held.set(false);
        own.give_way();
        // On to a thread without critical sections, and back again.
        if deferral::resume(own, 0) {
            deferral::answer(own, || own.give_way());
        }
        assert_eq!(deferral::suspend(own), 0);
        own.held.set(true);
        assert!(!deferral::resume(own, held), "one section is left");
        own.leave();
    });
}
