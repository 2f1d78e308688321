//! The choice of one operation, as its threads share it.
//!
//! An operation reads the table, and makes a countdown one smaller. That is all, but for the few
//! that are timed. Those take turns between the way that is chosen and the other one.

use crate::choice::budget::WatchBudget;
use crate::choice::explanation::Explanation;
use crate::choice::figures::{ChosenWay, CostFigures, HomeState};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use underpass_sync::{Mutex, MutexGuard, PoisonError};

/// Bits of the table: whether to invoke a home that runs, or one that sleeps.
const AWAKE: u8 = 1;
const ASLEEP: u8 = 2;

/// So many operations may wait for the home at once. All of them are given up if it stops, and each
/// then holds a slot of the binding until the home goes on.
const MOST_INVOKED: u32 = 16;

/// Operations before the first look at the clock.
const FIRST: u32 = 16;

/// What it takes to ask the system whether the home's process is stopped, in ns.
const ASK_NS: f64 = 5_000.0;

/// The choice of one operation.
///
/// | field | written by |
/// |---|---|
/// | `table` | the thread that holds `watched` |
/// | `countdown` | each operation; a lost change delays the next measurement |
/// | `invoked` | each operation that invokes, by addition |
/// | `watched` | the thread that measures |
pub(crate) struct Chooser {
    name: &'static str,
    by_attribute: Option<ChosenWay>,
    table: AtomicU8,
    countdown: AtomicU32,
    invoked: AtomicU32,
    watched: Mutex<Watched>,
}

struct Watched {
    figures: CostFigures,
    budget: WatchBudget,
    /// What the home did when it was last found running.
    awake: HomeState,
    is_stopped: bool,
    /// Whether the other way is timed next.
    other_next: bool,
    timed: u64,
}

impl Watched {
    fn state(&self, asleep: bool) -> HomeState {
        match (self.is_stopped, asleep) {
            (true, _) => HomeState::Stopped,
            (false, true) => HomeState::Asleep,
            (false, false) => self.awake,
        }
    }

    /// Notes whether the home's process is stopped. One that goes on is as it was before.
    fn found(&mut self, is_stopped: bool) {
        if self.is_stopped && !is_stopped {
            self.awake = HomeState::Polling;
        }
        self.is_stopped = is_stopped;
    }

    fn table(&self) -> u8 {
        let bit = |asleep, bit| match self.figures.cheaper(self.state(asleep)) {
            ChosenWay::Access => 0,
            ChosenWay::Invoke => bit,
        };
        bit(false, AWAKE) | bit(true, ASLEEP)
    }
}

impl Chooser {
    pub(crate) fn new(
        name: &'static str,
        by_attribute: Option<ChosenWay>,
        figures: CostFigures,
        now_ns: u64,
    ) -> Self {
        let watched = Watched {
            figures,
            budget: WatchBudget::since(now_ns),
            awake: HomeState::Polling,
            is_stopped: false,
            other_next: true,
            timed: 0,
        };
        Self {
            name,
            by_attribute,
            table: AtomicU8::new(watched.table()),
            countdown: AtomicU32::new(FIRST),
            invoked: AtomicU32::new(0),
            watched: Mutex::new(watched),
        }
    }

    /// How to run the operation now. `asleep`: whether the home's attention word says so. The
    /// others are asked only if the operation is timed: what time it is, and whether the home's
    /// process is stopped.
    #[inline]
    pub(crate) fn plan(
        &self,
        fixed: Option<ChosenWay>,
        asleep: impl FnOnce() -> bool,
        now_ns: impl Fn() -> u64,
        is_stopped: impl FnOnce() -> bool,
    ) -> OperationPlan<'_> {
        if let Some(way) = fixed.or(self.by_attribute) {
            return OperationPlan {
                chooser: self,
                way,
                asleep: false,
                is_fixed: true,
                begun_ns: None,
                among: None,
            };
        }
        // Relaxed: a count that may lose some.
        let left = self.countdown.load(Ordering::Relaxed);
        if left == 0 {
            return self.timed(asleep(), now_ns, is_stopped);
        }
        self.countdown.store(left - 1, Ordering::Relaxed);
        // Where access is the cheaper way in each state, the home's attention word is left alone:
        // its line may be in the home's cache. Relaxed: any of the last tables will do.
        let asleep = self.table.load(Ordering::Relaxed) != 0 && asleep();
        self.planned(asleep, self.chosen(asleep), None)
    }

    fn chosen(&self, asleep: bool) -> ChosenWay {
        // Relaxed: any of the last tables will do.
        let table = self.table.load(Ordering::Relaxed);
        match table & if asleep { ASLEEP } else { AWAKE } {
            0 => ChosenWay::Access,
            _ => ChosenWay::Invoke,
        }
    }

    fn planned(&self, asleep: bool, way: ChosenWay, begun_ns: Option<u64>) -> OperationPlan<'_> {
        let among = if way == ChosenWay::Invoke { Among::join(&self.invoked) } else { None };
        let way = if among.is_some() { way } else { ChosenWay::Access };
        OperationPlan { chooser: self, way, asleep, is_fixed: false, begun_ns, among }
    }

    #[cold]
    fn timed(
        &self,
        asleep: bool,
        now_ns: impl Fn() -> u64,
        is_stopped: impl FnOnce() -> bool,
    ) -> OperationPlan<'_> {
        let chosen = self.chosen(asleep);
        let Ok(mut watched) = self.watched.try_lock() else { return self.planned(asleep, chosen, None) };
        watched.budget.look();
        let usual = watched.figures.expected_ns(chosen, watched.state(asleep));
        self.countdown.store(WatchBudget::later(usual), Ordering::Relaxed);
        let way = match (watched.other_next, chosen) {
            (false, way) => way,
            (true, ChosenWay::Access) => ChosenWay::Invoke,
            (true, ChosenWay::Invoke) => ChosenWay::Access,
        };
        let mut begun = now_ns();
        if way == ChosenWay::Invoke && (watched.is_stopped || chosen == ChosenWay::Access) {
            // To ask takes less than to invoke a home that does not answer.
            if !watched.budget.allows(begun, ASK_NS) {
                return self.planned(asleep, chosen, None);
            }
            watched.found(is_stopped());
            let asked = now_ns();
            let ns = asked.saturating_sub(begun) as f64;
            watched.budget.spend(ns);
            self.table.store(watched.table(), Ordering::Relaxed);
            if watched.is_stopped {
                self.countdown.store(WatchBudget::pause(ns, usual), Ordering::Relaxed);
                return self.planned(asleep, ChosenWay::Access, None);
            }
            begun = asked;
        }
        let expected = watched.figures.expected_ns(way, watched.state(asleep));
        if !watched.budget.allows(begun, expected) {
            return self.planned(asleep, chosen, None);
        }
        watched.other_next = !watched.other_next;
        self.planned(asleep, way, Some(now_ns()))
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn learn(&self, asleep: bool, ns: f64, learn: impl FnOnce(&mut Watched)) {
        let mut watched = self.watched();
        watched.budget.spend(ns);
        watched.timed += 1;
        learn(&mut watched);
        self.table.store(watched.table(), Ordering::Relaxed);
        let usual = watched.figures.expected_ns(self.chosen(asleep), watched.state(asleep));
        self.countdown.store(WatchBudget::pause(ns, usual), Ordering::Relaxed);
    }

    pub(crate) fn explain(&self, fixed: Option<ChosenWay>, asleep: bool, now_ns: u64) -> Explanation {
        let watched = self.watched();
        Explanation {
            operation: self.name,
            way: fixed.or(self.by_attribute).unwrap_or_else(|| self.chosen(asleep)),
            by_caller: fixed.is_some(),
            by_attribute: self.by_attribute.is_some(),
            home: watched.state(asleep),
            figures: watched.figures,
            timed: watched.timed,
            share: watched.budget.share(now_ns),
        }
    }
}

/// One of the operations that may wait for the home.
struct Among<'a>(&'a AtomicU32);

impl<'a> Among<'a> {
    fn join(invoked: &'a AtomicU32) -> Option<Self> {
        // Relaxed: a count.
        let among = Self(invoked);
        (invoked.fetch_add(1, Ordering::Relaxed) < MOST_INVOKED).then_some(among)
    }
}

impl Drop for Among<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How one operation runs this time.
#[must_use]
pub(crate) struct OperationPlan<'a> {
    chooser: &'a Chooser,
    way: ChosenWay,
    asleep: bool,
    is_fixed: bool,
    /// Since when it is timed.
    begun_ns: Option<u64>,
    among: Option<Among<'a>>,
}

impl OperationPlan<'_> {
    #[inline]
    pub(crate) fn way(&self) -> ChosenWay {
        self.way
    }

    /// Whether the caller or an attribute has fixed the way.
    #[inline]
    pub(crate) fn is_fixed(&self) -> bool {
        self.is_fixed
    }

    /// Whether the caller has to say what time it is.
    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        self.begun_ns.is_some()
    }

    /// The home has executed the operation.
    #[inline]
    pub(crate) fn invoked(self, now_ns: impl FnOnce() -> u64) {
        if let Some(begun) = self.begun_ns {
            let ns = now_ns().saturating_sub(begun) as f64;
            self.chooser.learn(self.asleep, ns, |watched| {
                let state = watched.figures.invoked(self.asleep, ns);
                if state != HomeState::Asleep {
                    watched.awake = state;
                }
            });
        }
    }

    /// The home has not executed it within `patience_ns`. The caller goes on by access.
    #[cold]
    pub(crate) fn unanswered(&mut self, patience_ns: f64, is_stopped: bool) {
        self.begun_ns = None;
        self.among = None;
        self.way = ChosenWay::Access;
        let asleep = self.asleep;
        self.chooser.learn(asleep, patience_ns, |watched| {
            watched.found(is_stopped);
            if is_stopped {
                return;
            }
            watched.figures.unanswered(asleep, patience_ns);
            if !asleep {
                watched.awake = HomeState::Busy;
            }
        });
    }

    /// It was executed here. The times are those of the copy and of the operation itself.
    #[cold]
    pub(crate) fn accessed(self, copied_ns: u64, ended_ns: u64) {
        if let Some(begun) = self.begun_ns {
            let copy = copied_ns.saturating_sub(begun) as f64;
            let body = ended_ns.saturating_sub(copied_ns) as f64;
            let learn = |watched: &mut Watched| watched.figures.accessed(copy, body);
            self.chooser.learn(self.asleep, copy + body, learn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::InvocationCost;
    use std::cell::Cell;

    /// A home that takes times of its own.
    struct Pretended {
        now: Cell<u64>,
        asleep: Cell<bool>,
        stopped: Cell<bool>,
        copy_ns: Cell<u64>,
        invocation_ns: Cell<u64>,
        asked: Cell<u64>,
        /// How long each way ran.
        access_ns: Cell<u64>,
        invoke_ns: Cell<u64>,
    }

    const PATIENCE: u64 = 1_000_000;

    impl Pretended {
        fn new(copy_ns: u64, invocation_ns: u64) -> Self {
            Self {
                now: Cell::new(1),
                asleep: Cell::new(false),
                stopped: Cell::new(false),
                copy_ns: Cell::new(copy_ns),
                invocation_ns: Cell::new(invocation_ns),
                asked: Cell::new(0),
                access_ns: Cell::new(0),
                invoke_ns: Cell::new(0),
            }
        }

        fn pass(&self, ns: u64, on: &Cell<u64>) {
            self.now.set(self.now.get() + ns);
            on.set(on.get() + ns);
        }

        fn run(&self, chooser: &Chooser, fixed: Option<ChosenWay>) -> ChosenWay {
            let is_stopped = || {
                self.asked.set(self.asked.get() + 1);
                self.now.set(self.now.get() + 3_000);
                self.stopped.get()
            };
            let mut plan = chooser.plan(fixed, || self.asleep.get(), || self.now.get(), is_stopped);
            if plan.way() == ChosenWay::Invoke {
                if !self.stopped.get() && self.invocation_ns.get() < PATIENCE {
                    self.pass(self.invocation_ns.get(), &self.invoke_ns);
                    plan.invoked(|| self.now.get());
                    return ChosenWay::Invoke;
                }
                self.pass(PATIENCE, &self.invoke_ns);
                plan.unanswered(PATIENCE as f64, self.stopped.get());
            }
            self.pass(self.copy_ns.get(), &self.access_ns);
            plan.accessed(self.now.get(), self.now.get());
            ChosenWay::Access
        }

        /// Of so many operations, how many were invoked.
        fn times(&self, chooser: &Chooser, operations: u32) -> u32 {
            (0..operations).filter(|_| self.run(chooser, None) == ChosenWay::Invoke).count() as u32
        }
    }

    fn chooser(lines: u32, by_attribute: Option<ChosenWay>) -> Chooser {
        let invocations = [400.0, 1_600.0, 40_000.0].map(InvocationCost::measured);
        let figures = CostFigures { lines, local_ns: 2.0, remote_ns: 22.0, invocations, body_ns: 0.0 };
        Chooser::new("depth", by_attribute, figures, 1)
    }

    #[test]
    fn the_cheaper_way_is_taken_and_the_other_one_watched() {
        let (few, many) = (chooser(4, None), chooser(64, None));
        let home = Pretended::new(4 * 22, 408);
        let invoked = home.times(&few, 100_000);
        assert!((1..1_000).contains(&invoked), "{invoked}");
        assert!(home.invoke_ns.get() * 100 <= home.now.get());
        let home = Pretended::new(64 * 22, 528);
        let invoked = home.times(&many, 100_000);
        assert!((99_000..100_000).contains(&invoked), "{invoked}");
        assert!(home.access_ns.get() * 100 <= home.now.get());
    }

    #[test]
    fn a_home_that_gets_busy_and_idle_again_is_noticed() {
        let (chooser, home) = (chooser(64, None), Pretended::new(64 * 22, 528));
        home.times(&chooser, 10_000);
        home.invocation_ns.set(200_000);
        home.times(&chooser, 3_000);
        assert_eq!(chooser.explain(None, false, home.now.get()).home, HomeState::Busy);
        assert!(home.times(&chooser, 10_000) < 100);
        home.invocation_ns.set(528);
        home.times(&chooser, 100_000);
        assert_eq!(chooser.explain(None, false, home.now.get()).home, HomeState::Polling);
        assert!(home.times(&chooser, 10_000) > 9_900);
    }

    #[test]
    fn an_object_that_no_longer_changes_is_copied() {
        let (chooser, home) = (chooser(64, None), Pretended::new(64 * 22, 528));
        home.times(&chooser, 10_000);
        home.copy_ns.set(128);
        home.times(&chooser, 200_000);
        assert!(home.times(&chooser, 10_000) < 100);
    }

    #[test]
    fn a_sleeping_home_is_woken_only_if_that_is_cheaper() {
        let (chooser, home) = (chooser(64, None), Pretended::new(64 * 22, 528));
        home.asleep.set(true);
        home.invocation_ns.set(40_000);
        let invoked = home.times(&chooser, 10_000);
        assert!(invoked * 40_000 <= 10_000 * 64 * 22 / 50, "{invoked}");
    }

    #[test]
    fn a_stopped_home_delays_one_operation_and_is_asked_for_rarely() {
        let (chooser, home) = (chooser(64, None), Pretended::new(64 * 22, 528));
        home.times(&chooser, 1_000);
        home.stopped.set(true);
        let before = home.invoke_ns.get();
        assert_eq!(home.times(&chooser, 100_000), 0);
        assert_eq!(home.invoke_ns.get() - before, PATIENCE);
        assert!((1..1_000).contains(&home.asked.get()), "{}", home.asked.get());
        let told = chooser.explain(None, false, home.now.get());
        assert_eq!((told.home, told.way), (HomeState::Stopped, ChosenWay::Access));
        home.stopped.set(false);
        home.times(&chooser, 200_000);
        assert!(home.times(&chooser, 10_000) > 9_900);
    }

    #[test]
    fn the_caller_and_an_attribute_fix_the_way() {
        let home = Pretended::new(64 * 22, 528);
        let free = chooser(64, None);
        assert_eq!(home.run(&free, Some(ChosenWay::Access)), ChosenWay::Access);
        let bound = chooser(1, Some(ChosenWay::Invoke));
        assert_eq!(home.times(&bound, 1_000), 1_000);
        assert_eq!(home.run(&bound, Some(ChosenWay::Access)), ChosenWay::Access, "the caller decides");
        assert_eq!(bound.explain(None, false, 2).timed, 0, "nothing is watched");
    }

    #[test]
    fn no_more_than_some_wait_for_the_home_at_once() {
        let chooser = chooser(64, None);
        let plan = || chooser.plan(None, || false, || 2, || false);
        let waiting: Vec<_> = (0..MOST_INVOKED).map(|_| plan()).collect();
        assert!(waiting.iter().all(|plan| plan.way() == ChosenWay::Invoke));
        assert_eq!(plan().way(), ChosenWay::Access);
        drop(waiting);
        assert_eq!(plan().way(), ChosenWay::Invoke);
    }
}
