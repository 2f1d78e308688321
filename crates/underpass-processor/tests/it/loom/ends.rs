//! Counting of blocked activations, and activations that end when the blocked ones have returned.

use super::permits::{Domain, model};
use loom::sync::atomic::Ordering;
use loom::thread;
use underpass_processor::permits::protocol::{self, Environment};
use underpass_processor::permits::state;

/// Counts as the clerk does: reads the number of reported changes, and then whether that activation
/// is blocked.
fn count(domain: &Domain, number: usize) -> (u32, bool) {
    let told = domain.blocking_changes.load(Ordering::Acquire);
    (told, domain.states[number].get() == state::BLOCKED)
}

#[test]
fn a_count_after_the_last_reported_change_is_right() {
    model(|| {
        let domain = Domain::new(1, 1, &[]);
        let monitor = {
            let domain = domain.clone();
            thread::spawn(move || {
                if domain.states[0].advance(state::RUNNING, state::BLOCKED) {
                    domain.blocking_ended();
                    protocol::free(&*domain);
                }
            })
        };
        let clerk = {
            let domain = domain.clone();
            thread::spawn(move || count(&domain, 0))
        };
        // The thread reaches a scheduling point, whether it was found blocked or not.
        if domain.states[0].get() == state::BLOCKED {
            protocol::regain(&*domain, &domain.states[0], state::BLOCKED);
        }
        monitor.join().unwrap();
        let (told, blocked) = clerk.join().unwrap();
        let last = count(&domain, 0);
        assert!(told != last.0 || blocked == last.1, "a wrong count has a change after it");
    });
}

#[test]
fn work_finds_one_that_ends_or_has_another_started() {
    model(|| {
        let domain = Domain::new(1, 0, &[state::ASLEEP]);
        let other = {
            let domain = domain.clone();
            thread::spawn(move || domain.make_work())
        };
        let ended = protocol::end_for_good(&*domain, &domain.states[0]);
        other.join().unwrap();
        domain.adds_up();
        let starting = domain.starting.load(Ordering::SeqCst);
        let at = if ended { state::ENDED } else { state::RUNNING };
        assert_eq!((domain.states[0].get(), starting), (at, u32::from(ended)));
    });
}

#[test]
fn calls_that_nobody_takes_find_one_that_ends_or_have_another_started() {
    model(|| {
        let domain = Domain::new(1, 0, &[state::ASLEEP]);
        let monitor = {
            let domain = domain.clone();
            thread::spawn(move || protocol::serve(&*domain))
        };
        let ended = protocol::end_for_good(&*domain, &domain.states[0]);
        monitor.join().unwrap();
        domain.adds_up();
        let at = if ended { state::ENDED } else { state::RUNNING };
        assert_eq!(domain.states[0].get(), at);
        assert_eq!(domain.starting.load(Ordering::SeqCst), u32::from(ended));
    });
}

#[test]
fn of_two_sleepers_the_one_that_stays_listens() {
    model(|| {
        let domain = Domain::new(1, 1, &[state::ASLEEP]);
        let other = {
            let domain = domain.clone();
            thread::spawn(move || protocol::end_for_good(&*domain, &domain.states[1]))
        };
        let last = protocol::retire(&*domain, &domain.states[0], state::ASLEEP);
        assert!(other.join().unwrap(), "nobody has woken it");
        // It knows that it is the last, or was woken to find that out.
        assert!(last || domain.states[0].get() == state::RUNNING);
        domain.adds_up();
    });
}

#[test]
fn the_last_sleeper_that_ends_leaves_the_lines_to_another() {
    model(|| {
        let domain = Domain::new(1, 0, &[state::ASLEEP, state::ASLEEP]);
        let other = {
            let domain = domain.clone();
            thread::spawn(move || protocol::invite(&*domain))
        };
        let ended = protocol::end_for_good(&*domain, &domain.states[1]);
        other.join().unwrap();
        domain.adds_up();
        assert!(ended, "the other is found first");
        assert_eq!(domain.states[0].get(), state::RUNNING);
    });
}

#[test]
fn the_monitor_races_with_a_blocked_activation_that_returns() {
    model(|| {
        let domain = Domain::new(1, 0, &[state::BLOCKED]);
        let monitor = {
            let domain = domain.clone();
            thread::spawn(move || {
                if domain.permits.take() && !domain.states[0].give_permit(state::BLOCKED) {
                    protocol::free(&*domain);
                }
            })
        };
        protocol::regain(&*domain, &domain.states[0], state::BLOCKED);
        assert_eq!(domain.states[0].get(), state::RUNNING);
        monitor.join().unwrap();
        domain.adds_up();
        assert_eq!(domain.permits.counts().running, 1);
    });
}
