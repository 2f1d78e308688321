//! Processors that change hands, and maximums that change, while activations come and go.

use super::*;

/// A domain that goes by what it holds.
fn limited(maximum: u32, held: u32, running: usize, others: &[u32], lends: bool) -> Arc<Domain> {
    let domain = Domain::new(maximum, running, others);
    assert_eq!(domain.permits.set_limited(true, Some(held)), 0);
    let mut domain = Arc::try_unwrap(domain).unwrap_or_else(|_| unreachable!("nobody else has it"));
    domain.lends = lends;
    Arc::new(domain)
}

/// One more processor comes.
fn comes(domain: &Domain) {
    for _ in 0..domain.permits.add_held() {
        protocol::grant(domain);
    }
}

#[test]
fn a_processor_that_was_lent_comes_back_to_the_one_that_waits() {
    model(|| {
        let domain = limited(1, 1, 1, &[], true);
        let other = {
            let domain = domain.clone();
            thread::spawn(move || comes(&domain))
        };
        blocking_call(&domain, 0);
        other.join().unwrap();
        domain.adds_up();
        let counts = domain.permits.counts();
        assert_eq!((counts.running, counts.held), (1, 1), "one was lent, and one has come");
    });
}

#[test]
fn an_idle_processor_is_given_away_or_used() {
    model(|| {
        let domain = limited(1, 1, 0, &[state::ASLEEP], false);
        let giver = {
            let domain = domain.clone();
            thread::spawn(move || {
                let given = domain.permits.take_idle();
                if given {
                    // Another one comes for it.
                    comes(&domain);
                }
            })
        };
        protocol::resume(&*domain, &domain.states[0]);
        assert_eq!(domain.states[0].get(), state::RUNNING);
        giver.join().unwrap();
        domain.adds_up();
        let counts = domain.permits.counts();
        assert_eq!((counts.running, counts.held), (1, 1));
    });
}

#[test]
fn a_donated_processor_is_not_given_away() {
    model(|| {
        let domain = limited(1, 1, 1, &[], false);
        let giver = {
            let domain = domain.clone();
            thread::spawn(move || domain.permits.take_idle())
        };
        protocol::retire(&*domain, &domain.states[0], state::ASLEEP);
        let donates = protocol::keep(&*domain);
        // Here the listener of another domain runs, if this one donates.
        let held = domain.permits.counts().held;
        assert!(!donates || held == 1, "the processor that the listener runs on was given away");
        if donates {
            protocol::use_kept(&*domain, &domain.states[0]);
            assert_eq!(domain.states[0].get(), state::RUNNING);
        }
        assert_ne!(giver.join().unwrap(), donates, "it was donated, or else given away");
        domain.adds_up();
    });
}

#[test]
fn an_activation_that_waits_while_a_processor_is_donated_gets_it_afterwards() {
    model(|| {
        let domain = limited(1, 1, 1, &[state::DETACHED], false);
        let other = {
            let domain = domain.clone();
            thread::spawn(move || {
                protocol::regain(&*domain, &domain.states[1], state::DETACHED);
                end(&domain, 1);
            })
        };
        protocol::retire(&*domain, &domain.states[0], state::ASLEEP);
        if protocol::keep(&*domain) {
            protocol::use_kept(&*domain, &domain.states[0]);
            end(&domain, 0);
        }
        other.join().unwrap();
        domain.adds_up();
        assert_eq!(domain.permits.counts().running, 0);
    });
}

#[test]
fn work_that_comes_while_a_processor_is_donated_is_done_afterwards() {
    model(|| {
        let domain = limited(1, 1, 1, &[], false);
        let maker = {
            let domain = domain.clone();
            thread::spawn(move || domain.make_work())
        };
        protocol::retire(&*domain, &domain.states[0], state::ASLEEP);
        if protocol::keep(&*domain) {
            protocol::use_kept(&*domain, &domain.states[0]);
        } else {
            protocol::resume(&*domain, &domain.states[0]);
        }
        domain.take_work();
        end(&domain, 0);
        // I3 and I4: it looks for work before it sleeps.
        loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
        if domain.unstarted() {
            protocol::resume(&*domain, &domain.states[0]);
            domain.take_work();
            end(&domain, 0);
        }
        maker.join().unwrap();
        domain.leaves_no_work();
    });
}

#[test]
fn a_processor_that_is_owed_is_idle_once_its_activation_has_ended() {
    model(|| {
        let domain = limited(2, 2, 2, &[], false);
        let other = {
            let domain = domain.clone();
            thread::spawn(move || end(&domain, 1))
        };
        assert!(domain.permits.owe_held());
        // The activation that goes on does so without waiting.
        blocking_call(&domain, 0);
        other.join().unwrap();
        domain.adds_up();
        let counts = domain.permits.counts();
        assert_eq!((counts.running, counts.held, counts.maximum), (1, 1, 1));
        assert!(!domain.permits.take_idle(), "the other one is in use");
    });
}

#[test]
fn a_greater_maximum_reaches_a_waiter() {
    model(|| {
        let domain = Domain::new(1, 1, &[state::DETACHED]);
        let other = {
            let domain = domain.clone();
            thread::spawn(move || protocol::regain(&*domain, &domain.states[1], state::DETACHED))
        };
        for _ in 0..domain.permits.set_maximum(2) {
            protocol::grant(&*domain);
        }
        other.join().unwrap();
        assert_eq!(domain.states[1].get(), state::RUNNING);
        domain.adds_up();
        assert_eq!(domain.permits.counts().running, 2);
    });
}

#[test]
fn a_smaller_maximum_sends_one_away_and_lets_it_back() {
    model(|| {
        let domain = Domain::new(2, 2, &[]);
        let other = {
            let domain = domain.clone();
            thread::spawn(move || {
                if domain.states[1].advance(state::RUNNING, state::PREEMPTING) {
                    protocol::give_way(&*domain, &domain.states[1]);
                }
                assert_eq!(domain.states[1].get(), state::RUNNING);
                end(&domain, 1);
            })
        };
        assert_eq!(domain.permits.set_maximum(1), 0);
        blocking_call(&domain, 0);
        end(&domain, 0);
        other.join().unwrap();
        domain.adds_up();
        assert_eq!(domain.permits.counts().running, 0);
    });
}
