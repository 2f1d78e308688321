//! The end of a registration against threads that move its processors.

use loom::sync::Arc;
use loom::thread;
use std::num::NonZeroU64;
use underpass_node::page::RegistrationGate;
use underpass_processor::permits::Permits;

/// What a domain has in its private memory.
struct Domain {
    gate: RegistrationGate,
    permits: Permits,
}

impl Domain {
    /// A registered domain that holds so many processors.
    fn new(held: u32) -> Arc<Self> {
        let permits = Permits::new(2);
        permits.set_limited(true, Some(held));
        let gate = RegistrationGate::default();
        gate.open(NonZeroU64::MIN);
        Arc::new(Self { gate, permits })
    }

    /// A gift that fails, since the other domain is gone. Returns whether it was tried.
    fn gives_in_vain(&self) -> bool {
        let Some(_pass) = self.gate.enter() else { return false };
        let taken = self.permits.take_idle();
        if taken {
            self.permits.add_held();
        }
        taken
    }

    /// What the taker does at the end.
    fn ends(&self) {
        self.permits.set_limited(false, None);
        self.gate.close(thread::yield_now);
        self.permits.set_limited(false, Some(0));
    }
}

#[test]
fn a_processor_that_was_not_given_does_not_come_back_after_the_end() {
    loom::model(|| {
        let domain = Domain::new(1);
        let giver = {
            let domain = domain.clone();
            thread::spawn(move || domain.gives_in_vain())
        };
        domain.ends();
        assert_eq!(domain.permits.counts().held, 0);
        giver.join().unwrap();
        assert_eq!(domain.permits.counts().held, 0, "nothing was put back into the next registration");
        assert!(!domain.gives_in_vain());
    });
}

#[test]
fn a_thread_of_the_first_registration_does_not_act_for_the_second() {
    loom::model(|| {
        let domain = Domain::new(1);
        let second = NonZeroU64::new(2).unwrap();
        let giver = {
            let domain = domain.clone();
            thread::spawn(move || {
                let Some(pass) = domain.gate.enter() else { return };
                let held = domain.permits.counts().held;
                assert_eq!(held, if pass.registration() == second { 7 } else { 1 });
                // Until the pass is dropped, nothing changes that.
                assert_eq!(domain.permits.counts().held, held);
            })
        };
        domain.gate.close(thread::yield_now);
        domain.permits.set_limited(true, Some(7));
        domain.gate.open(second);
        giver.join().unwrap();
    });
}

#[test]
fn two_threads_give_and_the_end_waits_for_both() {
    let mut model = loom::model::Builder::new();
    // Three threads, one of which waits in a loop: all interleavings are too many.
    model.preemption_bound = Some(2);
    model.check(|| {
        let domain = Domain::new(2);
        let givers: [_; 2] = std::array::from_fn(|_| {
            let domain = domain.clone();
            thread::spawn(move || domain.gives_in_vain())
        });
        domain.ends();
        for giver in givers {
            giver.join().unwrap();
        }
        assert_eq!(domain.permits.counts().held, 0);
    });
}
