//! A processor that another domain has asked for, while its activation computes, idles, blocks or
//! is asked by the monitor as well.

use super::*;

impl Domain {
    /// What a thread of the server's client does that gives up a permit, and the taker.
    pub(super) fn settle(&self) {
        // The client has a lock for this, which only one thread at a time passes. The fence is that
        // of `share_idle`.
        fence(Ordering::SeqCst);
        let counts = self.permits.counts();
        let excess = counts.running.saturating_sub(counts.maximum);
        let less = |owed: u32| if owed > excess { owed.checked_sub(1) } else { None };
        if self.owed.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).is_ok() {
            self.given.fetch_add(1, Ordering::AcqRel);
            drop(self.kernel.lock().unwrap());
            self.woken.notify_all();
        }
    }

    /// What the taker does when a processor is asked for.
    fn is_asked(&self) {
        assert!(self.permits.owe_held());
        self.owed.fetch_add(1, Ordering::AcqRel);
        if !protocol::end_excess(self) && protocol::detach(self) {
            // The monitor's tick.
            protocol::free(self);
        }
        self.settle();
    }

    /// Another domain has had the processor, and gives it back.
    fn comes_back(&self) {
        let mut kernel = self.kernel.lock().unwrap();
        while self.given.load(Ordering::Acquire) == 0 {
            kernel = self.woken.wait(kernel).unwrap();
        }
        drop(kernel);
        for _ in 0..self.permits.add_held() {
            protocol::grant(self);
        }
    }

    /// The activation computes until the signal comes, and the handler runs on top of it.
    fn computes(&self, number: usize) {
        let mut kernel = self.kernel.lock().unwrap();
        while self.signals.load(Ordering::Acquire) & 1 << number == 0 {
            kernel = self.woken.wait(kernel).unwrap();
        }
        drop(kernel);
        protocol::give_way(self, &self.states[number]);
        assert_eq!(self.states[number].get(), state::RUNNING, "it goes on");
    }
}

/// A domain that goes by what it holds.
fn limited(held: u32, running: usize) -> Arc<Domain> {
    let domain = Domain::new(held, running, &[]);
    assert_eq!(domain.permits.set_limited(true, Some(held)), 0);
    domain
}

/// At the end, nothing is owed, and the domain holds what it held before.
fn is_settled(domain: &Domain, held: u32) {
    domain.adds_up();
    assert_eq!(domain.permits.counts().held, held);
    assert_eq!((domain.owed.load(Ordering::Acquire), domain.given.load(Ordering::Acquire)), (0, 1));
}

#[test]
fn an_activation_that_computes_gives_way_to_the_signal_and_goes_on_later() {
    model(|| {
        let domain = limited(1, 1);
        let victim = {
            let domain = domain.clone();
            thread::spawn(move || {
                domain.computes(0);
                end(&domain, 0);
            })
        };
        domain.is_asked();
        domain.comes_back();
        victim.join().unwrap();
        is_settled(&domain, 1);
    });
}

#[test]
fn a_processor_that_is_asked_for_while_its_activation_goes_idle_is_given() {
    model(|| {
        let domain = limited(1, 1);
        let victim = {
            let domain = domain.clone();
            thread::spawn(move || {
                end(&domain, 0);
                domain.settle();
            })
        };
        domain.is_asked();
        victim.join().unwrap();
        domain.comes_back();
        is_settled(&domain, 1);
    });
}

#[test]
fn a_processor_that_is_asked_for_while_its_activation_blocks_is_given() {
    model(|| {
        let domain = limited(1, 1);
        let victim = {
            let domain = domain.clone();
            thread::spawn(move || {
                blocking_call_or_asked(&domain, 0);
                end(&domain, 0);
                domain.settle();
            })
        };
        domain.is_asked();
        domain.comes_back();
        victim.join().unwrap();
        is_settled(&domain, 1);
    });
}

/// As `blocking_call`, of an activation that may be asked to give way at its end.
fn blocking_call_or_asked(domain: &Domain, number: usize) {
    let state = &domain.states[number];
    protocol::begin(domain, state);
    if !protocol::end(state) {
        protocol::regain(domain, state, state::DETACHED);
    }
}

#[test]
fn the_monitor_and_the_taker_ask_one_activation_at_once() {
    model(|| {
        let domain = limited(1, 1);
        let taker = {
            let domain = domain.clone();
            thread::spawn(move || {
                domain.is_asked();
                domain.comes_back();
            })
        };
        // The monitor, and then the activation's next safe point.
        let victim = &domain.states[0];
        let counts = domain.permits.counts();
        if counts.running > counts.maximum {
            victim.advance(state::RUNNING, state::PREEMPTING);
        }
        protocol::give_way(&*domain, victim);
        end(&domain, 0);
        domain.settle();
        taker.join().unwrap();
        is_settled(&domain, 1);
    });
}

#[test]
fn one_of_two_activations_gives_way_and_the_other_goes_on() {
    model(|| {
        let domain = limited(2, 2);
        let other = {
            let domain = domain.clone();
            thread::spawn(move || {
                // A safe point.
                protocol::give_way(&*domain, &domain.states[1]);
                end(&domain, 1);
                domain.settle();
            })
        };
        domain.is_asked();
        // The activation that runs `main` is the one that is asked.
        protocol::give_way(&*domain, &domain.states[0]);
        end(&domain, 0);
        domain.settle();
        other.join().unwrap();
        domain.adds_up();
        let counts = domain.permits.counts();
        assert_eq!((counts.held, domain.given.load(Ordering::Acquire)), (1, 1));
    });
}
