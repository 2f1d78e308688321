//! Blocked activations that are counted, and those that end when the others have come back.

use crate::permits::{Place, model};
use loom::sync::atomic::Ordering;
use loom::thread;
use underpass_processor::permits::protocol::{self, Environment};
use underpass_processor::permits::state;

/// As the clerk counts: what was told, and then whether that state is stuck.
fn count(place: &Place, number: usize) -> (u32, bool) {
    let told = place.told.load(Ordering::Acquire);
    (told, place.states[number].get() == state::BLOCKED)
}

#[test]
fn a_count_after_the_last_change_that_was_told_is_right() {
    model(|| {
        let place = Place::new(1, 1, &[]);
        let monitor = {
            let place = place.clone();
            thread::spawn(move || {
                if place.states[0].advance(state::RUNNING, state::BLOCKED) {
                    place.blocking_ended();
                    protocol::free(&*place);
                }
            })
        };
        let clerk = {
            let place = place.clone();
            thread::spawn(move || count(&place, 0))
        };
        // The thread comes to a scheduling point, whether it was found blocked or not.
        if place.states[0].get() == state::BLOCKED {
            protocol::regain(&*place, &place.states[0], state::BLOCKED);
        }
        monitor.join().unwrap();
        let (told, stuck) = clerk.join().unwrap();
        let last = count(&place, 0);
        assert!(told != last.0 || stuck == last.1, "nobody would count again");
    });
}

#[test]
fn work_finds_one_that_ends_or_has_another_started() {
    model(|| {
        let place = Place::new(1, 0, &[state::ASLEEP]);
        let other = {
            let place = place.clone();
            thread::spawn(move || place.make_work())
        };
        let ended = protocol::end_for_good(&*place, &place.states[0]);
        other.join().unwrap();
        place.adds_up();
        let starting = place.starting.load(Ordering::SeqCst);
        let at = if ended { state::ENDED } else { state::RUNNING };
        assert_eq!((place.states[0].get(), starting), (at, u32::from(ended)));
    });
}

#[test]
fn calls_that_nobody_takes_find_one_that_ends_or_have_another_started() {
    model(|| {
        let place = Place::new(1, 0, &[state::ASLEEP]);
        let monitor = {
            let place = place.clone();
            thread::spawn(move || protocol::serve(&*place))
        };
        let ended = protocol::end_for_good(&*place, &place.states[0]);
        monitor.join().unwrap();
        place.adds_up();
        let at = if ended { state::ENDED } else { state::RUNNING };
        assert_eq!(place.states[0].get(), at);
        assert_eq!(place.starting.load(Ordering::SeqCst), u32::from(ended));
    });
}

#[test]
fn of_two_that_sleep_the_one_that_stays_listens() {
    model(|| {
        let place = Place::new(1, 1, &[state::ASLEEP]);
        let other = {
            let place = place.clone();
            thread::spawn(move || protocol::end_for_good(&*place, &place.states[1]))
        };
        let last = protocol::retire(&*place, &place.states[0], state::ASLEEP);
        assert!(other.join().unwrap(), "nobody has called it");
        // It knows that it is the last, or was called to find out.
        assert!(last || place.states[0].get() == state::RUNNING);
        place.adds_up();
    });
}

#[test]
fn who_ends_as_the_last_leaves_the_lines_to_another() {
    model(|| {
        let place = Place::new(1, 0, &[state::ASLEEP, state::ASLEEP]);
        let other = {
            let place = place.clone();
            thread::spawn(move || protocol::invite(&*place))
        };
        let ended = protocol::end_for_good(&*place, &place.states[1]);
        other.join().unwrap();
        place.adds_up();
        assert!(ended, "the other is found first");
        assert_eq!(place.states[0].get(), state::RUNNING);
    });
}

#[test]
fn the_monitor_and_a_stuck_one_that_comes_back() {
    model(|| {
        let place = Place::new(1, 0, &[state::BLOCKED]);
        let monitor = {
            let place = place.clone();
            thread::spawn(move || {
                if place.permits.take() && !place.states[0].give_permit(state::BLOCKED) {
                    protocol::free(&*place);
                }
            })
        };
        protocol::regain(&*place, &place.states[0], state::BLOCKED);
        assert_eq!(place.states[0].get(), state::RUNNING);
        monitor.join().unwrap();
        place.adds_up();
        assert_eq!(place.permits.counts().running, 1);
    });
}
