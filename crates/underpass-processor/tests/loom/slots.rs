//! Every interleaving of small cases of the protocol of slots and seats.

use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use underpass_processor::seat::{Seat, state};
use underpass_processor::slots::Slots;
use underpass_processor::turns::{self, World};

/// A few seats, and the kernel's side of their futexes. A lost wake-up is a deadlock, which loom
/// reports.
pub struct Place {
    pub slots: Slots,
    pub seats: Vec<Seat>,
    /// Guards the sleep on any word, as the kernel's lock does.
    kernel: Mutex<()>,
    woken: Condvar,
    /// How much is unstarted.
    work: AtomicU32,
    /// Slots that lie where activations are started.
    pub unborn: AtomicU32,
    bracketed: bool,
    /// How often there were too few activations to run or listen on all processors.
    short: AtomicU32,
    /// How often a seat has come to `STUCK` or left it, as is told.
    pub told: AtomicU32,
}

impl Place {
    /// `running` seats hold slots, and `others` are in that state.
    pub fn new(maximum: u32, running: usize, others: &[u32]) -> Arc<Self> {
        let states = std::iter::repeat_n(state::RUNNING, running).chain(others.iter().copied());
        let seats = states.enumerate().map(|(number, state)| Seat::new(number, state)).collect();
        let slots = Slots::new(maximum);
        for _ in 0..running {
            assert!(slots.take());
        }
        Arc::new(Self {
            slots,
            seats,
            kernel: Mutex::new(()),
            woken: Condvar::new(),
            work: AtomicU32::new(0),
            unborn: AtomicU32::new(0),
            bracketed: true,
            short: AtomicU32::new(0),
            told: AtomicU32::new(0),
        })
    }

    /// S of the README, at a quiescent point.
    pub fn adds_up(&self) {
        let held = |seat: &&Seat| matches!(seat.get(), state::RUNNING | state::OUT | state::PREEMPTING);
        let held = self.seats.iter().filter(held).count() as u32;
        let counts = self.slots.counts();
        assert_eq!(counts.running, held + self.unborn.load(Ordering::SeqCst), "{:?}", self.states());
        let waiting = self.seats.iter().filter(|seat| seat.published().is_some()).count() as u32;
        assert_eq!(counts.waiting, waiting, "{:?}", self.states());
        assert!(waiting == 0 || counts.running >= counts.maximum);
    }

    /// No slot is free while work waits, at a quiescent point.
    fn leaves_no_work(&self) {
        assert!(!self.unstarted() || !self.slots.counts().free(), "{:?}", self.states());
    }

    pub fn states(&self) -> Vec<u32> {
        self.seats.iter().map(Seat::get).collect()
    }

    pub fn make_work(&self) {
        self.work.fetch_add(1, Ordering::Relaxed);
        // For the light barrier.
        fence(Ordering::SeqCst);
        turns::request(self);
    }

    /// Takes the work, if there is any.
    fn take_work(&self) -> bool {
        let less = |work: u32| work.checked_sub(1);
        self.work.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).is_ok()
    }
}

impl World for Place {
    fn slots(&self) -> &Slots {
        &self.slots
    }

    fn seats(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter()
    }

    fn wake(&self, _: &Seat) {
        drop(self.kernel.lock().unwrap());
        self.woken.notify_all();
    }

    fn wait(&self, seat: &Seat, at: u32) {
        let kernel = self.kernel.lock().unwrap();
        if seat.get() == at {
            drop(self.woken.wait(kernel).unwrap());
        }
    }

    fn rouse(&self, seat: &Seat) {
        self.wake(seat);
    }

    fn takes(&self, _: &Seat) -> bool {
        true
    }

    fn serves(&self, _: &Seat) -> bool {
        true
    }

    fn beget(&self) -> bool {
        self.unborn.fetch_add(1, Ordering::AcqRel);
        drop(self.kernel.lock().unwrap());
        self.woken.notify_all();
        true
    }

    fn reclaim(&self) -> bool {
        let less = |slots: u32| slots.checked_sub(1);
        self.unborn.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).is_ok()
    }

    fn unstarted(&self) -> bool {
        self.work.load(Ordering::Relaxed) > 0
    }

    fn bracketed(&self) -> bool {
        self.bracketed
    }

    fn heed(&self) {}

    fn unstuck(&self) {
        self.told.fetch_add(1, Ordering::Release);
    }

    fn replenish(&self) {
        self.short.fetch_add(1, Ordering::AcqRel);
    }
}

/// A blocking call of that activation.
fn bracket(place: &Place, number: usize) {
    let seat = &place.seats[number];
    turns::begin(place, seat);
    if !turns::end(seat) {
        turns::regain(place, seat, state::DETACHED);
    }
    assert_eq!(seat.get(), state::RUNNING);
}

/// An activation goes idle, and comes back when it is told to or finds work.
fn idle(place: &Place, number: usize) {
    let seat = &place.seats[number];
    turns::retire(place, seat, state::ASLEEP);
    // For the heavy barrier.
    fence(Ordering::SeqCst);
    if !place.unstarted() {
        // Only a call ends this sleep.
        while seat.get() == state::ASLEEP {
            place.wait(seat, state::ASLEEP);
        }
    }
    turns::resume(place, seat);
    assert_eq!(seat.get(), state::RUNNING);
}

/// As [`idle`], without the heavy barrier where it is alone; else it comes back at once, since
/// others' fences can't be had here.
fn idle_unseen(place: &Place, number: usize) {
    let seat = &place.seats[number];
    turns::retire(place, seat, state::ASLEEP);
    if turns::is_alone(place) && !place.unstarted() {
        while seat.get() == state::ASLEEP {
            place.wait(seat, state::ASLEEP);
        }
    }
    turns::resume(place, seat);
}

/// Activation 1 makes work as it fences for nobody, if it runs or not; activation 0, which sleeps
/// without a barrier meanwhile, gets it.
fn unfenced(
    bracketed: bool,
    maximum: u32,
    running: usize,
    others: &'static [u32],
    first: fn(&Place),
    then: fn(&Place),
) {
    model(move || {
        // So many that none is free, when the work is made, unless activation 0 has given its up.
        let mut place = Place::new(maximum, running, others);
        Arc::get_mut(&mut place).expect("it is new").bracketed = bracketed;
        let other = {
            let place = place.clone();
            thread::spawn(move || {
                first(&place);
                place.work.store(1, Ordering::Release);
                turns::request(&*place);
                then(&place);
            })
        };
        while !place.take_work() {
            idle_unseen(&place, 0);
            thread::yield_now();
        }
        other.join().unwrap();
        place.adds_up();
    });
}

#[test]
fn one_that_runs_leaves_work_to_one_that_sleeps_unseen() {
    unfenced(false, 2, 2, &[], |_| (), |_| ());
}

#[test]
fn one_that_ends_leaves_work_to_one_that_sleeps_unseen() {
    unfenced(false, 2, 2, &[], |_| (), |place| end(place, 1));
}

#[test]
fn one_that_comes_to_a_processor_leaves_work_to_one_that_sleeps_unseen() {
    let comes = |place: &Place| turns::regain(place, &place.seats[1], state::DETACHED);
    unfenced(false, 2, 1, &[state::DETACHED], comes, |_| ());
}

#[test]
fn one_that_lost_its_slot_in_the_kernel_leaves_work_to_one_that_sleeps_unseen() {
    unfenced(false, 1, 1, &[state::STUCK], |_| (), |_| ());
}

#[test]
fn one_in_a_blocking_call_leaves_work_to_one_that_sleeps_unseen() {
    unfenced(true, 1, 1, &[state::DETACHED], |_| (), |_| ());
}

/// An activation ends its run: it gives its slot up for good.
fn end(place: &Place, number: usize) {
    turns::retire(place, &place.seats[number], state::ASLEEP);
}

pub fn model(case: impl Fn() + Send + Sync + 'static) {
    bounded(3, case);
}

fn bounded(preemptions: usize, case: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(case);
}

#[test]
fn two_that_come_back_share_one_slot() {
    model(|| {
        let place = Place::new(1, 0, &[state::DETACHED, state::DETACHED]);
        let run = |number: usize| {
            let place = place.clone();
            move || {
                turns::regain(&*place, &place.seats[number], state::DETACHED);
                assert_eq!(place.seats[number].get(), state::RUNNING);
                end(&place, number);
            }
        };
        let other = thread::spawn(run(1));
        run(0)();
        other.join().unwrap();
        place.adds_up();
        assert_eq!(place.slots.counts().running, 0);
    });
}

#[test]
fn who_gives_way_comes_back_after_who_waits() {
    model(|| {
        let place = Place::new(1, 1, &[state::DETACHED]);
        assert!(place.seats[0].advance(state::RUNNING, state::PREEMPTING));
        let other = {
            let place = place.clone();
            thread::spawn(move || {
                turns::regain(&*place, &place.seats[1], state::DETACHED);
                assert_eq!(place.seats[1].get(), state::RUNNING);
                end(&place, 1);
            })
        };
        turns::give_way(&*place, &place.seats[0]);
        assert_eq!(place.seats[0].get(), state::RUNNING);
        end(&place, 0);
        other.join().unwrap();
        place.adds_up();
    });
}

#[test]
fn an_announced_call_lets_who_waits_go_on() {
    model(|| {
        let place = Place::new(1, 1, &[state::DETACHED]);
        let other = {
            let place = place.clone();
            thread::spawn(move || {
                turns::regain(&*place, &place.seats[1], state::DETACHED);
                end(&place, 1);
            })
        };
        turns::begin(&*place, &place.seats[0]);
        // The call returns only when the other has run.
        other.join().unwrap();
        if !turns::end(&place.seats[0]) {
            turns::regain(&*place, &place.seats[0], state::DETACHED);
        }
        assert_eq!(place.seats[0].get(), state::RUNNING);
        place.adds_up();
    });
}

#[test]
fn work_that_comes_during_an_announced_call_gets_its_slot() {
    model(|| {
        let place = Place::new(1, 1, &[]);
        let other = {
            let place = place.clone();
            thread::spawn(move || place.make_work())
        };
        turns::begin(&*place, &place.seats[0]);
        other.join().unwrap();
        // The call has not returned: somebody is to be started for the work.
        assert_eq!(place.unborn.load(Ordering::SeqCst), 1);
        assert_eq!(place.seats[0].get(), state::DETACHED);
        place.adds_up();
    });
}

#[test]
fn work_finds_an_idler_or_is_found_by_it() {
    model(|| {
        let place = Place::new(1, 1, &[]);
        let other = {
            let place = place.clone();
            thread::spawn(move || place.make_work())
        };
        while !place.take_work() {
            idle(&place, 0);
        }
        other.join().unwrap();
        place.adds_up();
        assert_eq!(place.states(), [state::RUNNING]);
    });
}

#[test]
fn work_wakes_one_who_sleeps() {
    model(|| {
        let place = Place::new(1, 1, &[]);
        let other = {
            let place = place.clone();
            thread::spawn(move || idle(&place, 0))
        };
        while place.seats[0].get() != state::ASLEEP {
            thread::yield_now();
        }
        place.make_work();
        other.join().unwrap();
        place.adds_up();
    });
}

#[test]
fn two_requests_and_one_who_wakes_by_itself() {
    model(|| {
        let place = Place::new(1, 0, &[state::ASLEEP]);
        place.work.store(1, Ordering::SeqCst);
        let other = {
            let place = place.clone();
            thread::spawn(move || turns::request(&*place))
        };
        turns::resume(&*place, &place.seats[0]);
        assert!(matches!(place.seats[0].get(), state::RUNNING));
        other.join().unwrap();
        // Whether the request found it asleep, or awake with the slot.
        place.adds_up();
        assert_eq!(place.slots.counts().running, 1);
    });
}

#[test]
fn who_is_called_up_while_it_wakes_waits_for_its_turn() {
    model(|| {
        let place = Place::new(1, 1, &[state::ASLEEP]);
        let other = {
            let place = place.clone();
            thread::spawn(move || {
                turns::resume(&*place, &place.seats[1]);
                assert_eq!(place.seats[1].get(), state::RUNNING);
            })
        };
        turns::call_up(&*place);
        end(&place, 0);
        other.join().unwrap();
        place.adds_up();
    });
}

#[test]
fn the_monitor_takes_the_slot_of_one_that_goes_out() {
    model(|| {
        let place = Place::new(1, 1, &[]);
        let monitor = {
            let place = place.clone();
            thread::spawn(move || {
                if place.seats[0].advance(state::RUNNING, state::STUCK) {
                    turns::free(&*place);
                }
            })
        };
        turns::begin(&*place, &place.seats[0]);
        if !turns::end(&place.seats[0]) {
            turns::regain(&*place, &place.seats[0], state::DETACHED);
        }
        monitor.join().unwrap();
        assert!(matches!(place.seats[0].get(), state::RUNNING | state::STUCK));
        place.adds_up();
    });
}

#[test]
fn a_greater_maximum_reaches_who_waits() {
    model(|| {
        let place = Place::new(1, 1, &[state::DETACHED]);
        let other = {
            let place = place.clone();
            thread::spawn(move || turns::regain(&*place, &place.seats[1], state::DETACHED))
        };
        for _ in 0..place.slots.set_maximum(2) {
            turns::grant(&*place);
        }
        other.join().unwrap();
        assert_eq!(place.seats[1].get(), state::RUNNING);
        place.adds_up();
        assert_eq!(place.slots.counts().running, 2);
    });
}

#[test]
fn a_smaller_maximum_sends_one_away_and_lets_it_back() {
    model(|| {
        let place = Place::new(2, 2, &[]);
        let other = {
            let place = place.clone();
            thread::spawn(move || {
                if place.seats[1].advance(state::RUNNING, state::PREEMPTING) {
                    turns::give_way(&*place, &place.seats[1]);
                }
                assert_eq!(place.seats[1].get(), state::RUNNING);
                end(&place, 1);
            })
        };
        assert_eq!(place.slots.set_maximum(1), 0);
        bracket(&place, 0);
        end(&place, 0);
        other.join().unwrap();
        place.adds_up();
        assert_eq!(place.slots.counts().running, 0);
    });
}

#[test]
fn three_in_turn() {
    bounded(2, || {
        let place = Place::new(1, 1, &[state::DETACHED, state::DETACHED]);
        let others: Vec<_> = (1..3)
            .map(|number| {
                let place = place.clone();
                thread::spawn(move || {
                    turns::regain(&*place, &place.seats[number], state::DETACHED);
                    assert_eq!(place.seats[number].get(), state::RUNNING);
                    end(&place, number);
                })
            })
            .collect();
        end(&place, 0);
        others.into_iter().for_each(|other| other.join().unwrap());
        place.adds_up();
        assert_eq!(place.slots.counts().running, 0);
    });
}

#[test]
fn work_that_saw_a_slot_too_many_is_not_left() {
    model(|| {
        let place = Place::new(2, 0, &[state::ASLEEP]);
        let other = {
            let place = place.clone();
            thread::spawn(move || {
                place.make_work();
                place.make_work();
            })
        };
        // It wakes by itself, may be handed a slot besides, and stays with what it takes.
        turns::resume(&*place, &place.seats[0]);
        place.take_work();
        other.join().unwrap();
        place.adds_up();
        place.leaves_no_work();
    });
}

#[test]
fn work_that_saw_a_detached_slot_is_not_left() {
    bounded(2, || {
        let place = Place::new(2, 2, &[state::DETACHED]);
        assert!(place.seats[1].advance(state::RUNNING, state::OUT));
        let ending = {
            let place = place.clone();
            thread::spawn(move || {
                end(&place, 0);
                // I3, I4.
                fence(Ordering::SeqCst);
                if place.unstarted() {
                    turns::resume(&*place, &place.seats[0]);
                }
            })
        };
        let maker = {
            let place = place.clone();
            thread::spawn(move || place.make_work())
        };
        // It waits, and takes the slot of the one that is out, though by then the one that ends may
        // have passed its own on.
        turns::regain(&*place, &place.seats[2], state::DETACHED);
        assert_eq!(place.seats[2].get(), state::RUNNING);
        ending.join().unwrap();
        maker.join().unwrap();
        place.adds_up();
        place.leaves_no_work();
    });
}

#[test]
fn who_is_asked_and_found_blocked_at_once_waits_all_the_same() {
    model(|| {
        let place = Place::new(1, 1, &[]);
        assert!(place.seats[0].advance(state::RUNNING, state::PREEMPTING));
        let monitor = {
            let place = place.clone();
            thread::spawn(move || {
                if place.seats[0].advance(state::PREEMPTING, state::STUCK) {
                    turns::free(&*place);
                }
            })
        };
        // The handler: another signal would not come.
        turns::give_way(&*place, &place.seats[0]);
        assert_eq!(place.seats[0].get(), state::RUNNING);
        monitor.join().unwrap();
        place.unborn.store(0, Ordering::SeqCst);
    });
}

#[test]
fn of_two_that_lose_their_slots_in_the_kernel_one_asks_for_listeners() {
    model(|| {
        let place = Place::new(2, 2, &[state::ASLEEP]);
        let monitor = {
            let place = place.clone();
            thread::spawn(move || {
                if place.seats[0].advance(state::RUNNING, state::STUCK) {
                    turns::see_to_listeners(&*place);
                    turns::free(&*place);
                }
            })
        };
        assert!(place.seats[1].advance(state::RUNNING, state::OUT));
        assert!(turns::detach(&*place), "it is the only one that is out");
        turns::free(&*place);
        monitor.join().unwrap();
        place.adds_up();
        assert!(place.short.load(Ordering::Acquire) > 0);
    });
}
