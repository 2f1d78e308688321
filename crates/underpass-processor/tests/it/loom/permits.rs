//! Every interleaving of small cases of the permit protocol.

use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use underpass_processor::permits::Permits;
use underpass_processor::permits::protocol::{self, Environment};
use underpass_processor::permits::{ActivationState, state};

mod excess;
mod invitations;
mod sharing;

/// A few activations, and the kernel's side of their futexes. A lost wake-up is a deadlock, which
/// loom reports.
pub struct Domain {
    pub permits: Permits,
    pub states: Vec<ActivationState>,
    /// Guards the sleep on any word, as the kernel's futex lock does.
    kernel: Mutex<()>,
    woken: Condvar,
    /// How many pieces of work are unstarted.
    work: AtomicU32,
    /// Permits that are left for activations to be started.
    pub starting: AtomicU32,
    uses_blocking_calls: bool,
    /// How often there were too few activations to run or listen on all processors.
    short: AtomicU32,
    /// Whether another domain takes what is lent.
    pub lends: bool,
    /// How often an activation was reported to become `BLOCKED` or to leave that state.
    pub blocking_changes: AtomicU32,
    /// Processors that are owed, and those that were given away.
    owed: AtomicU32,
    given: AtomicU32,
    /// The bits of the activations that were sent the signal.
    signals: AtomicU32,
}

impl Domain {
    /// The first `running` activations hold permits. `others` are the states of the rest.
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
            uses_blocking_calls: true,
            short: AtomicU32::new(0),
            lends: false,
            blocking_changes: AtomicU32::new(0),
            owed: AtomicU32::new(0),
            given: AtomicU32::new(0),
            signals: AtomicU32::new(0),
        })
    }

    /// Lemma S of the README, at a quiescent point.
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
    pub fn leaves_no_work(&self) {
        assert!(!self.unstarted() || !self.permits.counts().free(), "{:?}", self.snapshot());
    }

    pub fn snapshot(&self) -> Vec<u32> {
        self.states.iter().map(ActivationState::get).collect()
    }

    pub fn make_work(&self) {
        self.work.fetch_add(1, Ordering::Relaxed);
        // This stands for the light barrier.
        fence(Ordering::SeqCst);
        protocol::request(self);
    }

    /// Takes a piece of work. Returns `false` if there is none.
    pub fn take_work(&self) -> bool {
        let less = |work: u32| work.checked_sub(1);
        self.work.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).is_ok()
    }
}

impl Environment for Domain {
    fn permits(&self) -> &Permits {
        &self.permits
    }

    fn states(&self) -> impl Iterator<Item = &ActivationState> {
        self.states.iter()
    }

    fn wanted_elsewhere(&self) -> bool {
        self.lends
    }

    fn lend(&self) -> bool {
        self.permits.take_in_hand()
    }

    fn wake(&self, _: &ActivationState) {
        drop(self.kernel.lock().unwrap());
        self.woken.notify_all();
    }

    fn wait(&self, state: &ActivationState, at: u32) {
        self.settle();
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

    fn uses_blocking_calls(&self) -> bool {
        self.uses_blocking_calls
    }

    fn wake_monitor(&self) {}

    fn blocking_ended(&self) {
        self.blocking_changes.fetch_add(1, Ordering::Release);
    }

    fn start_missing(&self) {
        self.short.fetch_add(1, Ordering::AcqRel);
    }

    fn runs(&self, _: &ActivationState) -> bool {
        true
    }

    fn interrupt(&self, state: &ActivationState) -> bool {
        self.signals.fetch_or(1 << state.number(), Ordering::AcqRel);
        self.wake(state);
        true
    }
}

/// The activation `number` makes a blocking call.
fn blocking_call(domain: &Domain, number: usize) {
    let state = &domain.states[number];
    protocol::begin(domain, state);
    if !protocol::end(state) {
        protocol::regain(domain, state, state::DETACHED);
    }
    assert_eq!(state.get(), state::RUNNING);
}

/// An activation goes idle. It returns when it is woken, or finds work.
fn idle(domain: &Domain, number: usize) {
    let state = &domain.states[number];
    protocol::retire(domain, state, state::ASLEEP);
    // This stands for the heavy barrier.
    fence(Ordering::SeqCst);
    if !domain.unstarted() {
        // Only a wake-up ends this sleep.
        while state.get() == state::ASLEEP {
            domain.wait(state, state::ASLEEP);
        }
    }
    protocol::resume(domain, state);
    assert_eq!(state.get(), state::RUNNING);
}

/// As [`idle`], but it sleeps only if it is alone, and then without the heavy barrier. If it is not
/// alone, it returns at once: loom can't issue fences in other threads, as the heavy barrier does.
fn idle_unseen(domain: &Domain, number: usize) {
    let state = &domain.states[number];
    protocol::retire(domain, state, state::ASLEEP);
    if protocol::is_alone(domain) && !domain.unstarted() {
        while state.get() == state::ASLEEP {
            domain.wait(state, state::ASLEEP);
        }
    }
    protocol::resume(domain, state);
}

/// Activation 1 makes work without a fence of its own, whether it runs or not. Activation 0, which
/// sleeps without a barrier meanwhile, gets the work.
fn unfenced(
    uses_blocking_calls: bool,
    maximum: u32,
    running: usize,
    others: &'static [u32],
    first: fn(&Domain),
    then: fn(&Domain),
) {
    model(move || {
        // No permit is free when the work is made, unless activation 0 has given its own up.
        let mut domain = Domain::new(maximum, running, others);
        Arc::get_mut(&mut domain).expect("it is new").uses_blocking_calls = uses_blocking_calls;
        let other = {
            let domain = domain.clone();
            thread::spawn(move || {
                first(&domain);
                domain.work.store(1, Ordering::Release);
                protocol::request(&*domain);
                then(&domain);
            })
        };
        while !domain.take_work() {
            idle_unseen(&domain, 0);
            thread::yield_now();
        }
        other.join().unwrap();
        domain.adds_up();
    });
}

#[test]
fn work_of_a_running_activation_reaches_one_that_sleeps_without_a_barrier() {
    unfenced(false, 2, 2, &[], |_| (), |_| ());
}

#[test]
fn work_of_a_retiring_activation_reaches_one_that_sleeps_without_a_barrier() {
    unfenced(false, 2, 2, &[], |_| (), |domain| end(domain, 1));
}

#[test]
fn work_of_an_activation_that_takes_a_permit_reaches_one_that_sleeps_without_a_barrier() {
    let comes = |domain: &Domain| protocol::regain(domain, &domain.states[1], state::DETACHED);
    unfenced(false, 2, 1, &[state::DETACHED], comes, |_| ());
}

#[test]
fn work_of_a_blocked_activation_reaches_one_that_sleeps_without_a_barrier() {
    unfenced(false, 1, 1, &[state::BLOCKED], |_| (), |_| ());
}

#[test]
fn work_from_a_blocking_call_reaches_one_that_sleeps_without_a_barrier() {
    unfenced(true, 1, 1, &[state::DETACHED], |_| (), |_| ());
}

/// An activation gives its permit up for good.
fn end(domain: &Domain, number: usize) {
    protocol::retire(domain, &domain.states[number], state::ASLEEP);
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
fn two_returning_activations_share_one_permit() {
    model(|| {
        let domain = Domain::new(1, 0, &[state::DETACHED, state::DETACHED]);
        let run = |number: usize| {
            let domain = domain.clone();
            move || {
                protocol::regain(&*domain, &domain.states[number], state::DETACHED);
                assert_eq!(domain.states[number].get(), state::RUNNING);
                end(&domain, number);
            }
        };
        let other = thread::spawn(run(1));
        run(0)();
        other.join().unwrap();
        domain.adds_up();
        assert_eq!(domain.permits.counts().running, 0);
    });
}

#[test]
fn giving_way_lets_the_waiter_run_first() {
    model(|| {
        let domain = Domain::new(1, 1, &[state::DETACHED]);
        assert!(domain.states[0].advance(state::RUNNING, state::PREEMPTING));
        let other = {
            let domain = domain.clone();
            thread::spawn(move || {
                protocol::regain(&*domain, &domain.states[1], state::DETACHED);
                assert_eq!(domain.states[1].get(), state::RUNNING);
                end(&domain, 1);
            })
        };
        protocol::give_way(&*domain, &domain.states[0]);
        assert_eq!(domain.states[0].get(), state::RUNNING);
        end(&domain, 0);
        other.join().unwrap();
        domain.adds_up();
    });
}

#[test]
fn a_blocking_call_lets_a_waiter_run() {
    model(|| {
        let domain = Domain::new(1, 1, &[state::DETACHED]);
        let other = {
            let domain = domain.clone();
            thread::spawn(move || {
                protocol::regain(&*domain, &domain.states[1], state::DETACHED);
                end(&domain, 1);
            })
        };
        protocol::begin(&*domain, &domain.states[0]);
        // The blocking call returns only after the other has run.
        other.join().unwrap();
        if !protocol::end(&domain.states[0]) {
            protocol::regain(&*domain, &domain.states[0], state::DETACHED);
        }
        assert_eq!(domain.states[0].get(), state::RUNNING);
        domain.adds_up();
    });
}

#[test]
fn work_that_comes_during_a_blocking_call_gets_its_permit() {
    model(|| {
        let domain = Domain::new(1, 1, &[]);
        let other = {
            let domain = domain.clone();
            thread::spawn(move || domain.make_work())
        };
        protocol::begin(&*domain, &domain.states[0]);
        other.join().unwrap();
        // The blocking call has not returned, so an activation must have been requested for the
        // work.
        assert_eq!(domain.starting.load(Ordering::SeqCst), 1);
        assert_eq!(domain.states[0].get(), state::DETACHED);
        domain.adds_up();
    });
}

#[test]
fn work_reaches_an_idle_activation_or_is_found_by_it() {
    model(|| {
        let domain = Domain::new(1, 1, &[]);
        let other = {
            let domain = domain.clone();
            thread::spawn(move || domain.make_work())
        };
        while !domain.take_work() {
            idle(&domain, 0);
        }
        other.join().unwrap();
        domain.adds_up();
        assert_eq!(domain.snapshot(), [state::RUNNING]);
    });
}

#[test]
fn work_wakes_a_sleeper() {
    model(|| {
        let domain = Domain::new(1, 1, &[]);
        let other = {
            let domain = domain.clone();
            thread::spawn(move || idle(&domain, 0))
        };
        while domain.states[0].get() != state::ASLEEP {
            thread::yield_now();
        }
        domain.make_work();
        other.join().unwrap();
        domain.adds_up();
    });
}

#[test]
fn a_request_races_with_a_spurious_wake_up() {
    model(|| {
        let domain = Domain::new(1, 0, &[state::ASLEEP]);
        domain.work.store(1, Ordering::SeqCst);
        let other = {
            let domain = domain.clone();
            thread::spawn(move || protocol::request(&*domain))
        };
        protocol::resume(&*domain, &domain.states[0]);
        assert!(matches!(domain.states[0].get(), state::RUNNING));
        other.join().unwrap();
        // This holds whether the request found it asleep, or awake with the permit.
        domain.adds_up();
        assert_eq!(domain.permits.counts().running, 1);
    });
}

#[test]
fn a_sleeper_that_is_enlisted_while_it_wakes_waits_for_its_turn() {
    model(|| {
        let domain = Domain::new(1, 1, &[state::ASLEEP]);
        let other = {
            let domain = domain.clone();
            thread::spawn(move || {
                protocol::resume(&*domain, &domain.states[1]);
                assert_eq!(domain.states[1].get(), state::RUNNING);
            })
        };
        protocol::enlist_sleeper(&*domain, |state| domain.takes(state));
        end(&domain, 0);
        other.join().unwrap();
        domain.adds_up();
    });
}

#[test]
fn the_monitor_takes_the_permit_as_a_blocking_call_begins() {
    model(|| {
        let domain = Domain::new(1, 1, &[]);
        let monitor = {
            let domain = domain.clone();
            thread::spawn(move || {
                if domain.states[0].advance(state::RUNNING, state::BLOCKED) {
                    protocol::free(&*domain);
                }
            })
        };
        protocol::begin(&*domain, &domain.states[0]);
        if !protocol::end(&domain.states[0]) {
            protocol::regain(&*domain, &domain.states[0], state::DETACHED);
        }
        monitor.join().unwrap();
        assert!(matches!(domain.states[0].get(), state::RUNNING | state::BLOCKED));
        domain.adds_up();
    });
}

#[test]
fn three_in_turn() {
    bounded(2, || {
        let domain = Domain::new(1, 1, &[state::DETACHED, state::DETACHED]);
        let others: Vec<_> = (1..3)
            .map(|number| {
                let domain = domain.clone();
                thread::spawn(move || {
                    protocol::regain(&*domain, &domain.states[number], state::DETACHED);
                    assert_eq!(domain.states[number].get(), state::RUNNING);
                    end(&domain, number);
                })
            })
            .collect();
        end(&domain, 0);
        others.into_iter().for_each(|other| other.join().unwrap());
        domain.adds_up();
        assert_eq!(domain.permits.counts().running, 0);
    });
}

#[test]
fn work_that_saw_a_surplus_permit_taken_is_not_left() {
    model(|| {
        let domain = Domain::new(2, 0, &[state::ASLEEP]);
        let other = {
            let domain = domain.clone();
            thread::spawn(move || {
                domain.make_work();
                domain.make_work();
            })
        };
        // It wakes by itself, and may be handed a permit besides. It keeps the one that it takes.
        protocol::resume(&*domain, &domain.states[0]);
        domain.take_work();
        other.join().unwrap();
        domain.adds_up();
        domain.leaves_no_work();
    });
}

#[test]
fn work_that_saw_a_detached_permit_taken_is_not_left() {
    bounded(2, || {
        let domain = Domain::new(2, 2, &[state::DETACHED]);
        assert!(domain.states[1].advance(state::RUNNING, state::IN_BLOCKING_CALL));
        let ending = {
            let domain = domain.clone();
            thread::spawn(move || {
                end(&domain, 0);
                // I3, I4.
                fence(Ordering::SeqCst);
                if domain.unstarted() {
                    protocol::resume(&*domain, &domain.states[0]);
                }
            })
        };
        let maker = {
            let domain = domain.clone();
            thread::spawn(move || domain.make_work())
        };
        // Activation 2 waits, and takes the permit of activation 1, which is in a blocking call. By
        // then activation 0, which ends, may have passed its own permit on.
        protocol::regain(&*domain, &domain.states[2], state::DETACHED);
        assert_eq!(domain.states[2].get(), state::RUNNING);
        ending.join().unwrap();
        maker.join().unwrap();
        domain.adds_up();
        domain.leaves_no_work();
    });
}

#[test]
fn an_activation_asked_and_found_blocked_at_once_still_waits() {
    model(|| {
        let domain = Domain::new(1, 1, &[]);
        assert!(domain.states[0].advance(state::RUNNING, state::PREEMPTING));
        let monitor = {
            let domain = domain.clone();
            thread::spawn(move || {
                if domain.states[0].advance(state::PREEMPTING, state::BLOCKED) {
                    protocol::free(&*domain);
                }
            })
        };
        // The handler waits here: no other signal would come.
        protocol::give_way(&*domain, &domain.states[0]);
        assert_eq!(domain.states[0].get(), state::RUNNING);
        monitor.join().unwrap();
        domain.starting.store(0, Ordering::SeqCst);
    });
}

#[test]
fn of_two_activations_that_lose_their_permits_one_asks_for_listeners() {
    model(|| {
        let domain = Domain::new(2, 2, &[state::ASLEEP]);
        let monitor = {
            let domain = domain.clone();
            thread::spawn(move || {
                if domain.states[0].advance(state::RUNNING, state::BLOCKED) {
                    protocol::ensure_listeners(&*domain);
                    protocol::free(&*domain);
                }
            })
        };
        assert!(domain.states[1].advance(state::RUNNING, state::IN_BLOCKING_CALL));
        assert!(protocol::detach(&*domain), "it is the only one in a blocking call");
        protocol::free(&*domain);
        monitor.join().unwrap();
        domain.adds_up();
        assert!(domain.short.load(Ordering::Acquire) > 0);
    });
}
