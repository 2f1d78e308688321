//! A thread from outside offers work while the activations of the domain come to rest.

use super::*;

#[test]
fn work_that_saw_the_permit_of_an_invitation_taken_is_not_left() {
    model(|| {
        // Activation 0 computes, and looks for no work.
        let domain = Domain::new(2, 1, &[]);
        let inviting = {
            let domain = domain.clone();
            thread::spawn(move || protocol::invite(&*domain))
        };
        domain.make_work();
        inviting.join().unwrap();
        domain.adds_up();
        domain.leaves_no_work();
    });
}

#[test]
fn one_that_goes_to_sleep_during_an_invitation_listens() {
    model(|| {
        let domain = Domain::new(2, 1, &[]);
        let inviting = {
            let domain = domain.clone();
            thread::spawn(move || protocol::invite(&*domain))
        };
        let last = protocol::retire(&*domain, &domain.states[0], state::ASLEEP);
        inviting.join().unwrap();
        domain.adds_up();
        // It knows that it is the last, or was woken to find that out.
        assert!(last || domain.states[0].get() == state::RUNNING, "{:?}", domain.snapshot());
    });
}
