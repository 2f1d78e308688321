//! Every interleaving of small cases of the protocol of permits and states.

use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use underpass_processor::permits::Permits;
use underpass_processor::permits::protocol::{self, Environment};
use underpass_processor::permits::{ActivationState, state};

/// A few states, and the kernel's side of their futexes. A lost wake-up is a deadlock, which loom
/// reports.
pub struct Place {
    pub permits: Permits,
    pub states: Vec<ActivationState>,
    /// Guards the sleep on any word, as the kernel's lock does.
    kernel: Mutex<()>,
    woken: Condvar,
    /// How much is unstarted.
    work: AtomicU32,
    /// Permits that lie where activations are started.
    pub starting: AtomicU32,
    bracketed: bool,
    /// How often there were too few activations to run or listen on all processors.
    short: AtomicU32,
    /// How often a state has come to `BLOCKED` or left it, as is told.
    pub told: AtomicU32,
}

impl Place {
    /// `running` states hold permits, and `others` are in that state.
    pub fn new(maximum: u32, running: usize, others: &[u32]) -> Arc<Self> {
        let states = std::iter::repeat_n(state::RUNNING, running).chain(others.iter().copied());
        let states = states.enumerate().map(|(number, state)| ActivationState::new(number, state)).collect();
        let permits = Permits::new(maximum);
        for _ in 0..running {
            assert!(permits.take());
        }
        Arc::new(Self {
            permits,
            states,
            kernel: Mutex::new(()),
            woken: Condvar::new(),
            work: AtomicU32::new(0),
            starting: AtomicU32::new(0),
            bracketed: true,
            short: AtomicU32::new(0),
            told: AtomicU32::new(0),
        })
    }

    /// S of the README, at a quiescent point.
    pub fn adds_up(&self) {
        let held = |state: &&ActivationState| {
            matches!(state.get(), state::RUNNING | state::IN_BLOCKING_CALL | state::PREEMPTING)
        };
        let held = self.states.iter().filter(held).count() as u32;
        let counts = self.permits.counts();
        assert_eq!(counts.running, held + self.starting.load(Ordering::SeqCst), "{:?}", self.snapshot());
        let waiting = self.states.iter().filter(|state| state.published().is_some()).count() as u32;
        assert_eq!(counts.waiting, waiting, "{:?}", self.snapshot());
        assert!(waiting == 0 || counts.running >= counts.maximum);
    }

    /// No permit is free while work waits, at a quiescent point.
    fn leaves_no_work(&self) {
        assert!(!self.unstarted() || !self.permits.counts().free(), "{:?}", self.snapshot());
    }

    pub fn snapshot(&self) -> Vec<u32> {
        self.states.iter().map(ActivationState::get).collect()
    }

    pub fn make_work(&self) {
        self.work.fetch_add(1, Ordering::Relaxed);
        // For the light barrier.
        fence(Ordering::SeqCst);
        protocol::request(self);
    }

    /// Takes the work, if there is any.
    fn take_work(&self) -> bool {
        let less = |work: u32| work.checked_sub(1);
        self.work.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).is_ok()
    }
}

impl Environment for Place {
    fn permits(&self) -> &Permits {
        &self.permits
    }

    fn states(&self) -> impl Iterator<Item = &ActivationState> {
        self.states.iter()
    }

    fn wake(&self, _: &ActivationState) {
        drop(self.kernel.lock().unwrap());
        self.woken.notify_all();
    }

    fn wait(&self, state: &ActivationState, at: u32) {
        let kernel = self.kernel.lock().unwrap();
        if state.get() == at {
            drop(self.woken.wait(kernel).unwrap());
        }
    }

    fn unpark(&self, state: &ActivationState) {
        self.wake(state);
    }

    fn takes(&self, _: &ActivationState) -> bool {
        true
    }

    fn serves(&self, _: &ActivationState) -> bool {
        true
    }

    fn start_activation(&self) -> bool {
        self.starting.fetch_add(1, Ordering::AcqRel);
        drop(self.kernel.lock().unwrap());
        self.woken.notify_all();
        true
    }

    fn reclaim_permit(&self) -> bool {
        let less = |permits: u32| permits.checked_sub(1);
        self.starting.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).is_ok()
    }

    fn unstarted(&self) -> bool {
        self.work.load(Ordering::Relaxed) > 0
    }

    fn bracketed(&self) -> bool {
        self.bracketed
    }

    fn wake_monitor(&self) {}

    fn blocking_ended(&self) {
        self.told.fetch_add(1, Ordering::Release);
    }

    fn start_missing(&self) {
        self.short.fetch_add(1, Ordering::AcqRel);
    }
}

/// A blocking call of that activation.
fn bracket(place: &Place, number: usize) {
    let state = &place.states[number];
    protocol::begin(place, state);
    if !protocol::end(state) {
        protocol::regain(place, state, state::DETACHED);
    }
    assert_eq!(state.get(), state::RUNNING);
}

/// An activation goes idle, and comes back when it is told to or finds work.
fn idle(place: &Place, number: usize) {
    let state = &place.states[number];
    protocol::retire(place, state, state::ASLEEP);
    // For the heavy barrier.
    fence(Ordering::SeqCst);
    if !place.unstarted() {
        // Only a call ends this sleep.
        while state.get() == state::ASLEEP {
            place.wait(state, state::ASLEEP);
        }
    }
    protocol::resume(place, state);
    assert_eq!(state.get(), state::RUNNING);
}

/// As [`idle`], without the heavy barrier where it is alone; else it comes back at once, since
/// others' fences can't be had here.
fn idle_unseen(place: &Place, number: usize) {
    let state = &place.states[number];
    protocol::retire(place, state, state::ASLEEP);
    if protocol::is_alone(place) && !place.unstarted() {
        while state.get() == state::ASLEEP {
            place.wait(state, state::ASLEEP);
        }
    }
    protocol::resume(place, state);
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
                protocol::request(&*place);
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
    let comes = |place: &Place| protocol::regain(place, &place.states[1], state::DETACHED);
    unfenced(false, 2, 1, &[state::DETACHED], comes, |_| ());
}

#[test]
fn one_that_lost_its_slot_in_the_kernel_leaves_work_to_one_that_sleeps_unseen() {
    unfenced(false, 1, 1, &[state::BLOCKED], |_| (), |_| ());
}

#[test]
fn one_in_a_blocking_call_leaves_work_to_one_that_sleeps_unseen() {
    unfenced(true, 1, 1, &[state::DETACHED], |_| (), |_| ());
}

/// An activation ends its run: it gives its permit up for good.
fn end(place: &Place, number: usize) {
    protocol::retire(place, &place.states[number], state::ASLEEP);
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
                protocol::regain(&*place, &place.states[number], state::DETACHED);
                assert_eq!(place.states[number].get(), state::RUNNING);
                end(&place, number);
            }
        };
        let other = thread::spawn(run(1));
        run(0)();
        other.join().unwrap();
        place.adds_up();
        assert_eq!(place.permits.counts().running, 0);
    });
}

#[test]
fn who_gives_way_comes_back_after_who_waits() {
    model(|| {
        let place = Place::new(1, 1, &[state::DETACHED]);
        assert!(place.states[0].advance(state::RUNNING, state::PREEMPTING));
        let other = {
            let place = place.clone();
            thread::spawn(move || {
                protocol::regain(&*place, &place.states[1], state::DETACHED);
                assert_eq!(place.states[1].get(), state::RUNNING);
                end(&place, 1);
            })
        };
        protocol::give_way(&*place, &place.states[0]);
        assert_eq!(place.states[0].get(), state::RUNNING);
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
                protocol::regain(&*place, &place.states[1], state::DETACHED);
                end(&place, 1);
            })
        };
        protocol::begin(&*place, &place.states[0]);
        // The call returns only when the other has run.
        other.join().unwrap();
        if !protocol::end(&place.states[0]) {
            protocol::regain(&*place, &place.states[0], state::DETACHED);
        }
        assert_eq!(place.states[0].get(), state::RUNNING);
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
        protocol::begin(&*place, &place.states[0]);
        other.join().unwrap();
        // The call has not returned: somebody is to be started for the work.
        assert_eq!(place.starting.load(Ordering::SeqCst), 1);
        assert_eq!(place.states[0].get(), state::DETACHED);
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
        assert_eq!(place.snapshot(), [state::RUNNING]);
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
        while place.states[0].get() != state::ASLEEP {
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
            thread::spawn(move || protocol::request(&*place))
        };
        protocol::resume(&*place, &place.states[0]);
        assert!(matches!(place.states[0].get(), state::RUNNING));
        other.join().unwrap();
        // Whether the request found it asleep, or awake with the permit.
        place.adds_up();
        assert_eq!(place.permits.counts().running, 1);
    });
}

#[test]
fn who_is_called_up_while_it_wakes_waits_for_its_turn() {
    model(|| {
        let place = Place::new(1, 1, &[state::ASLEEP]);
        let other = {
            let place = place.clone();
            thread::spawn(move || {
                protocol::resume(&*place, &place.states[1]);
                assert_eq!(place.states[1].get(), state::RUNNING);
            })
        };
        protocol::call_up(&*place);
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
                if place.states[0].advance(state::RUNNING, state::BLOCKED) {
                    protocol::free(&*place);
                }
            })
        };
        protocol::begin(&*place, &place.states[0]);
        if !protocol::end(&place.states[0]) {
            protocol::regain(&*place, &place.states[0], state::DETACHED);
        }
        monitor.join().unwrap();
        assert!(matches!(place.states[0].get(), state::RUNNING | state::BLOCKED));
        place.adds_up();
    });
}

#[test]
fn a_greater_maximum_reaches_who_waits() {
    model(|| {
        let place = Place::new(1, 1, &[state::DETACHED]);
        let other = {
            let place = place.clone();
            thread::spawn(move || protocol::regain(&*place, &place.states[1], state::DETACHED))
        };
        for _ in 0..place.permits.set_maximum(2) {
            protocol::grant(&*place);
        }
        other.join().unwrap();
        assert_eq!(place.states[1].get(), state::RUNNING);
        place.adds_up();
        assert_eq!(place.permits.counts().running, 2);
    });
}

#[test]
fn a_smaller_maximum_sends_one_away_and_lets_it_back() {
    model(|| {
        let place = Place::new(2, 2, &[]);
        let other = {
            let place = place.clone();
            thread::spawn(move || {
                if place.states[1].advance(state::RUNNING, state::PREEMPTING) {
                    protocol::give_way(&*place, &place.states[1]);
                }
                assert_eq!(place.states[1].get(), state::RUNNING);
                end(&place, 1);
            })
        };
        assert_eq!(place.permits.set_maximum(1), 0);
        bracket(&place, 0);
        end(&place, 0);
        other.join().unwrap();
        place.adds_up();
        assert_eq!(place.permits.counts().running, 0);
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
                    protocol::regain(&*place, &place.states[number], state::DETACHED);
                    assert_eq!(place.states[number].get(), state::RUNNING);
                    end(&place, number);
                })
            })
            .collect();
        end(&place, 0);
        others.into_iter().for_each(|other| other.join().unwrap());
        place.adds_up();
        assert_eq!(place.permits.counts().running, 0);
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
        // It wakes by itself, may be handed a permit besides, and stays with what it takes.
        protocol::resume(&*place, &place.states[0]);
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
        assert!(place.states[1].advance(state::RUNNING, state::IN_BLOCKING_CALL));
        let ending = {
            let place = place.clone();
            thread::spawn(move || {
                end(&place, 0);
                // I3, I4.
                fence(Ordering::SeqCst);
                if place.unstarted() {
                    protocol::resume(&*place, &place.states[0]);
                }
            })
        };
        let maker = {
            let place = place.clone();
            thread::spawn(move || place.make_work())
        };
        // It waits, and takes the permit of the one that is out, though by then the one that ends may
        // have passed its own on.
        protocol::regain(&*place, &place.states[2], state::DETACHED);
        assert_eq!(place.states[2].get(), state::RUNNING);
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
        assert!(place.states[0].advance(state::RUNNING, state::PREEMPTING));
        let monitor = {
            let place = place.clone();
            thread::spawn(move || {
                if place.states[0].advance(state::PREEMPTING, state::BLOCKED) {
                    protocol::free(&*place);
                }
            })
        };
        // The handler: another signal would not come.
        protocol::give_way(&*place, &place.states[0]);
        assert_eq!(place.states[0].get(), state::RUNNING);
        monitor.join().unwrap();
        place.starting.store(0, Ordering::SeqCst);
    });
}

#[test]
fn of_two_that_lose_their_slots_in_the_kernel_one_asks_for_listeners() {
    model(|| {
        let place = Place::new(2, 2, &[state::ASLEEP]);
        let monitor = {
            let place = place.clone();
            thread::spawn(move || {
                if place.states[0].advance(state::RUNNING, state::BLOCKED) {
                    protocol::ensure_listeners(&*place);
                    protocol::free(&*place);
                }
            })
        };
        assert!(place.states[1].advance(state::RUNNING, state::IN_BLOCKING_CALL));
        assert!(protocol::detach(&*place), "it is the only one that is out");
        protocol::free(&*place);
        monitor.join().unwrap();
        place.adds_up();
        assert!(place.short.load(Ordering::Acquire) > 0);
    });
}
