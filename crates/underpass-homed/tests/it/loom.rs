//! Loom models of an object's versions, of requests, of critical sections and of hybrid locks:
//! every interleaving of small cases. CONTRIBUTING.md says how to run them.
//!
//! In a model the memory holds two versions, and a version's words follow from its number.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use underpass_homed::model::{
    ModelArea, ModelCopy, ModelHome, ModelLock, ModelObject, ModelRequest, ModelSection,
};

/// Explores the model with at most `preemptions` preemptions, where all schedules would take too
/// long.
fn bounded(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A copy is one version, as it was published.
fn is_whole(copy: ModelCopy) {
    let ModelCopy { version, published_ns, words } = copy;
    assert_eq!((published_ns, words), (version * 100, [version * 10; 2]));
}

#[test]
fn a_copy_is_a_whole_version() {
    loom::model(|| {
        let object = ModelObject::new();
        let home = object.clone();
        // The last of them is written where the first one was.
        let publishes = thread::spawn(move || (2..=3).for_each(|version| home.publish(version)));
        if let Some(copy) = object.copy() {
            is_whole(copy);
        }
        publishes.join().unwrap();
        assert_eq!(object.copy().map(|copy| copy.version), Some(3));
    });
}

#[test]
fn a_copy_succeeds_unless_the_slot_is_written_again() {
    loom::model(|| {
        let object = ModelObject::new();
        let home = object.clone();
        let publishes = thread::spawn(move || home.publish(2));
        is_whole(object.copy().expect("one further version overwrites nothing"));
        publishes.join().unwrap();
    });
}

#[test]
fn versions_never_go_back() {
    loom::model(|| {
        let object = ModelObject::new();
        let home = object.clone();
        let publishes = thread::spawn(move || (2..=3).for_each(|version| home.publish(version)));
        let copies = [object.copy(), object.copy()].map(|copy| copy.map(|copy| copy.version));
        if let [Some(first), Some(second)] = copies {
            assert!(first <= second, "{first} came before {second}");
        }
        publishes.join().unwrap();
    });
}

#[test]
fn whoever_sees_the_end_gets_the_last_version() {
    loom::model(|| {
        let object = ModelObject::new();
        let home = object.clone();
        let publishes = thread::spawn(move || {
            home.publish(2);
            home.end();
        });
        let over = object.has_ended();
        let copy = object.copy().expect("one further version overwrites nothing");
        assert!(!over || copy.version == 2);
        publishes.join().unwrap();
    });
}

/// Two interrupts: what they have executed.
fn interrupt_twice(home: &mut ModelHome) -> Vec<u64> {
    [home.interrupt(), home.interrupt()].into_iter().flatten().collect()
}

/// No other thread uses the area: after what a requester does in the end, the home executes what it
/// has not executed before.
fn settle(area: &ModelArea, home: &mut ModelHome, request: &ModelRequest, executed: &mut Vec<u64>) {
    if !area.is_completed(request) {
        area.offer_again(request);
        executed.extend(home.interrupt());
        assert!(area.is_completed(request), "it is lost");
    }
}

#[test]
fn a_request_is_executed_once_and_its_results_are_whole() {
    bounded(3, || {
        let area = ModelArea::new();
        let mut home = ModelHome::of(&area);
        let serves = thread::spawn(move || {
            let executed = interrupt_twice(&mut home);
            (home, executed)
        });
        let first = area.post(10).unwrap();
        area.offer_again(&first);
        // The same request again, if it is completed, or the other one.
        let first = match area.is_completed(&first) {
            true => {
                area.give_back(first);
                None
            }
            false => Some(first),
        };
        let second = area.post(20).unwrap();
        let (mut home, mut executed) = serves.join().unwrap();
        first.iter().chain([&second]).for_each(|request| settle(&area, &mut home, request, &mut executed));
        assert_eq!(home.interrupt(), None, "what was offered again is ignored");
        executed.sort_unstable();
        assert_eq!(executed, [10, 20]);
    });
}

#[test]
fn an_overwritten_offer_is_found_and_made_again() {
    bounded(3, || {
        let area = ModelArea::new();
        let mut home = ModelHome::of(&area);
        let serves = thread::spawn(move || {
            let executed = interrupt_twice(&mut home);
            (home, executed)
        });
        let other = {
            let area = area.clone();
            thread::spawn(move || {
                let request = area.post(10).unwrap();
                area.offer_again(&request);
                request
            })
        };
        let request = area.post(20).unwrap();
        let other = other.join().unwrap();
        let (mut home, mut executed) = serves.join().unwrap();
        [&request, &other].into_iter().for_each(|request| settle(&area, &mut home, request, &mut executed));
        assert_eq!(home.interrupt(), None, "what was offered again is ignored");
        executed.sort_unstable();
        assert_eq!(executed, [10, 20]);
    });
}

#[test]
fn an_abandoned_request_is_not_written_over_before_it_is_completed() {
    bounded(3, || {
        let area = ModelArea::new();
        let mut home = ModelHome::of(&area);
        let serves = thread::spawn(move || {
            // It finds that arguments are whole.
            let executed = interrupt_twice(&mut home);
            (home, executed)
        });
        // There are two requests, and the second offer is written over the first.
        for operation in [10, 20] {
            let request = area.post(operation).unwrap();
            area.abandon(request);
        }
        let third = area.post(30);
        let (mut home, mut executed) = serves.join().unwrap();
        let third = third.unwrap_or_else(|| {
            // One of the two was not received before this thread looked.
            executed.extend(home.interrupt());
            area.post(30).expect("one of them is completed")
        });
        settle(&area, &mut home, &third, &mut executed);
        executed.sort_unstable();
        assert!([&[10, 20, 30][..], &[10, 30], &[20, 30]].contains(&&executed[..]), "{executed:?}");
    });
}

/// What handlers and critical sections change.
#[derive(Default)]
struct Data(UnsafeCell<usize>);

// SAFETY: the models access it where the section says that they may, which loom checks.
unsafe impl Sync for Data {}
unsafe impl Send for Data {}

/// A home with a queue of interrupts.
struct Interrupted {
    section: ModelSection,
    queue: AtomicUsize,
    data: Data,
}

impl Interrupted {
    fn new() -> Arc<Self> {
        Arc::new(Self { section: ModelSection::new(), queue: AtomicUsize::new(0), data: Data::default() })
    }

    fn interrupt(&self) {
        self.queue.fetch_add(1, Ordering::AcqRel);
        self.arrive();
    }

    fn arrive(&self) {
        self.section.arrive(|| {
            let any = self.queue.load(Ordering::Acquire) > 0;
            if any {
                self.queue.fetch_sub(1, Ordering::AcqRel);
                self.data.0.with_mut(|data| unsafe { *data += 1 });
            }
            any
        });
    }

    fn critical(&self) {
        self.section.mask();
        self.data.0.with_mut(|data| unsafe { *data += 10 });
        if self.section.unmask() {
            self.arrive();
        }
    }
}

#[test]
fn no_handler_runs_in_a_critical_section_and_no_interrupt_is_lost() {
    bounded(3, || {
        let home = Interrupted::new();
        let interrupts = {
            let home = home.clone();
            thread::spawn(move || {
                home.interrupt();
                home.interrupt();
            })
        };
        home.critical();
        interrupts.join().unwrap();
        assert_eq!(home.queue.load(Ordering::Acquire), 0);
        home.section.mask();
        assert_eq!(home.data.0.with(|data| unsafe { *data }), 12);
    });
}

#[test]
fn interrupts_of_two_threads_run_one_after_another() {
    bounded(3, || {
        let home = Interrupted::new();
        let interrupts = {
            let home = home.clone();
            thread::spawn(move || home.interrupt())
        };
        home.interrupt();
        interrupts.join().unwrap();
        assert_eq!(home.queue.load(Ordering::Acquire), 0);
        home.section.mask();
        assert_eq!(home.data.0.with(|data| unsafe { *data }), 2);
    });
}

/// A home that holds interrupts back.
struct Holding {
    section: ModelSection,
    waiting: Mutex<()>,
    told: Condvar,
    data: Data,
}

impl Holding {
    fn new() -> Arc<Self> {
        let (waiting, told) = (Mutex::new(()), Condvar::new());
        Arc::new(Self { section: ModelSection::new(), waiting, told, data: Data::default() })
    }

    fn tell(&self) {
        drop(self.waiting.lock().unwrap());
        self.told.notify_all();
    }

    fn interrupt(&self) {
        while !self.section.begin() {
            let waiting = self.waiting.lock().unwrap();
            if self.section.holds_back() {
                drop(self.told.wait(waiting).unwrap());
            }
        }
        self.data.0.with_mut(|data| unsafe { *data += 1 });
        if self.section.finish() {
            self.tell();
        }
    }

    fn critical(&self) {
        self.section.mask();
        self.data.0.with_mut(|data| unsafe { *data += 10 });
        if self.section.unmask() {
            self.tell();
        }
    }
}

#[test]
fn no_interrupt_that_is_held_is_lost() {
    bounded(3, || {
        let home = Holding::new();
        let interrupts = [(); 2].map(|()| {
            let home = home.clone();
            thread::spawn(move || home.interrupt())
        });
        home.critical();
        interrupts.into_iter().for_each(|thread| thread.join().unwrap());
        home.section.mask();
        assert_eq!(home.data.0.with(|data| unsafe { *data }), 12);
    });
}

/// A hybrid lock, and data that it guards.
struct Locked {
    lock: ModelLock,
    data: Data,
    /// The home urgently needs the lock.
    urges: AtomicBool,
    /// The home has had it.
    served: AtomicBool,
}

impl Locked {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            lock: ModelLock::new(),
            data: Data::default(),
            urges: AtomicBool::new(false),
            served: AtomicBool::new(false),
        })
    }

    fn add(&self, more: usize) {
        self.data.0.with_mut(|data| unsafe { *data += more });
    }

    /// One look of remote `me`, and a section if it gets the lock.
    fn remote(&self, me: u32) -> bool {
        let urges = self.urges.load(Ordering::Acquire);
        let Some(broken) = self.lock.try_remote(me) else { return false };
        assert!(!broken);
        assert!(!urges || self.served.load(Ordering::Relaxed), "the home comes first");
        self.add(1);
        self.lock.release_remote(me);
        true
    }
}

#[test]
fn the_home_and_remotes_exclude_each_other_and_the_home_comes_first() {
    bounded(2, || {
        let locked = Locked::new();
        let remotes = [2, 3].map(|me| {
            let locked = locked.clone();
            thread::spawn(move || usize::from(locked.remote(me)) + usize::from(locked.remote(me)))
        });
        locked.lock.urge();
        locked.urges.store(true, Ordering::Release);
        assert!(!locked.lock.lock_urgently());
        locked.add(100);
        locked.served.store(true, Ordering::Relaxed);
        locked.lock.release_home();
        let remote: usize = remotes.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(locked.lock.try_home(), Some(false), "nobody has it");
        assert_eq!(locked.data.0.with(|data| unsafe { *data }), 100 + remote);
    });
}

#[test]
fn a_thread_that_gives_up_leaves_the_lock_to_remotes() {
    loom::model(|| {
        let locked = Locked::new();
        let other = locked.clone();
        // Another thread of the home urgently needs it as well.
        let home = thread::spawn(move || {
            other.lock.urge();
            assert!(!other.lock.lock_urgently());
            other.add(1);
            other.lock.release_home();
        });
        locked.lock.urge();
        locked.lock.calm();
        home.join().unwrap();
        assert_eq!(locked.lock.try_remote(2), Some(false), "no count is left");
    });
}

#[test]
fn a_dead_remotes_lock_is_free_and_the_next_owner_is_told_once() {
    bounded(3, || {
        let locked = Locked::new();
        // It dies with the lock, or does not get it.
        assert_eq!(locked.lock.try_remote(2), Some(false));
        locked.add(1);
        let walks = [(); 2].map(|()| {
            let locked = locked.clone();
            thread::spawn(move || locked.lock.bury(2))
        });
        let taken = locked.lock.try_remote(3);
        if let Some(broken) = taken {
            assert!(broken, "the next owner is told");
            locked.add(1);
            locked.lock.release_remote(3);
        }
        walks.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(locked.lock.try_home(), Some(taken.is_none()));
        assert_eq!(locked.data.0.with(|data| unsafe { *data }), 1 + usize::from(taken.is_some()));
    });
}

#[test]
fn a_permit_has_one_holder_and_comes_back_with_its_death() {
    bounded(3, || {
        let lock = ModelLock::new();
        let held = Arc::new(AtomicUsize::new(0));
        let dead = lock.take_permit(2).unwrap();
        let others = [3, 4].map(|me| {
            let (lock, held) = (lock.clone(), held.clone());
            thread::spawn(move || {
                let Some(permit) = lock.take_permit(me) else { return };
                assert!(held.fetch_add(1, Ordering::AcqRel) < 2);
                held.fetch_sub(1, Ordering::AcqRel);
                lock.give_permit_back(permit, me);
            })
        });
        lock.bury(2);
        others.into_iter().for_each(|thread| thread.join().unwrap());
        // A release that comes late takes nobody's permit away.
        let all = [lock.take_permit(5), lock.take_permit(5)];
        assert!(all.iter().all(Option::is_some));
        lock.give_permit_back(dead, 2);
        assert_eq!(lock.take_permit(6), None);
    });
}
