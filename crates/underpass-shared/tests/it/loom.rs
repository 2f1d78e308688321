//! Loom models of the queues, the lock and the walk after a death: every interleaving of small
//! cases. CONTRIBUTING.md says how to run them.
//!
//! Loom reports a lost wake-up as a deadlock, and two threads that hold the lock at once as a race
//! on the cell. The stand-in for the runtime fails when a thread is woken twice. A deadline passes
//! at any moment.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;
use underpass_shared::model::{Locked, ModelMember, members, members_with_bells};

/// Explores the model with at most `preemptions` preemptions, where all schedules would take too
/// long.
fn bounded(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    // Listeners that sleep poll here.
    builder.max_branches = 10_000;
    builder.check(model);
}

/// What the lock guards.
#[derive(Default)]
struct Data(UnsafeCell<usize>);

// SAFETY: the models access it with the lock held, which loom checks.
unsafe impl Sync for Data {}
unsafe impl Send for Data {}

impl Data {
    fn count(&self) -> usize {
        self.0.with_mut(|data| unsafe {
            *data += 1;
            *data
        })
    }
}

fn count(member: &ModelMember, data: &Data) {
    let locked = member.lock();
    data.count();
    member.unlock(locked);
}

#[test]
fn the_lock_excludes_threads_of_several_domains_and_wakes_them() {
    bounded(3, || {
        let all = members();
        let [a, b, _] = all.clone();
        let data = Arc::new(Data::default());
        let others = [a.clone(), b].map(|member| {
            let data = data.clone();
            thread::spawn(move || count(&member, &data))
        });
        count(&a, &data);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(data.count(), 4);
        assert!(a.is_free());
    });
}

#[test]
fn a_waiter_that_gives_up_passes_its_wake_up_on() {
    bounded(3, || {
        let all = members();
        let [a, b, c] = all.clone();
        let data = Arc::new(Data::default());
        let late = thread::spawn(move || {
            if let Some(locked) = b.lock_or_late() {
                b.unlock(locked);
            }
        });
        let waits = {
            let data = data.clone();
            thread::spawn(move || count(&c, &data))
        };
        count(&a, &data);
        late.join().unwrap();
        waits.join().unwrap();
        assert_eq!(data.count(), 3);
    });
}

#[test]
fn a_notification_is_not_lost() {
    bounded(3, || {
        let all = members();
        let [a, b, _] = all.clone();
        let data = Arc::new(Data::default());
        let other = {
            let data = data.clone();
            thread::spawn(move || {
                count(&b, &data);
                b.notify();
            })
        };
        let mut locked: Locked = a.lock();
        while data.0.with(|data| unsafe { *data }) == 0 {
            locked = a.wait(locked);
        }
        a.unlock(locked);
        other.join().unwrap();
    });
}

#[test]
fn a_bell_that_is_rung_is_heard() {
    bounded(3, || {
        let all = members_with_bells();
        let [a, b, _] = all.clone();
        // The waiter is there when the other domain looks.
        let waiter = a.enroll();
        let rings = thread::spawn(move || b.notify());
        let listens = {
            let a = a.clone();
            thread::spawn(move || a.listen())
        };
        a.wait_as(waiter);
        rings.join().unwrap();
        listens.join().unwrap();
    });
}

#[test]
fn a_bell_is_heard_by_those_that_poll_or_by_the_listener() {
    // With two preemptions it takes minutes, and holds as well.
    bounded(1, || {
        let all = members_with_bells();
        let [a, b, _] = all.clone();
        let (first, second) = (a.enroll(), a.enroll());
        let rings = thread::spawn(move || {
            b.notify();
            b.notify();
        });
        let over = Arc::new(AtomicUsize::new(0));
        let listens = {
            let (a, over) = (a.clone(), over.clone());
            thread::spawn(move || a.listen_until(|| over.load(Ordering::SeqCst) != 0))
        };
        let polls = {
            let a = a.clone();
            thread::spawn(move || a.poll_as(second))
        };
        a.poll_as(first);
        polls.join().unwrap();
        rings.join().unwrap();
        over.store(1, Ordering::SeqCst);
        a.rouse_listener();
        listens.join().unwrap();
    });
}

#[test]
fn several_that_walk_after_a_death_free_its_lock_once() {
    bounded(2, || {
        let all = members();
        let [a, dead, c] = all.clone();
        // It dies while it holds the lock.
        std::mem::forget(dead.lock());
        let broken = Arc::new(AtomicUsize::new(0));
        let walks = {
            let (c, dead) = (c, dead.clone());
            let broken = broken.clone();
            thread::spawn(move || {
                c.bury(&dead);
                let locked = c.lock();
                broken.fetch_add(usize::from(locked.broken), Ordering::Relaxed);
                c.unlock(locked);
            })
        };
        let again = {
            let (a, dead) = (a.clone(), dead.clone());
            thread::spawn(move || a.bury(&dead))
        };
        // It waits, and learns of the death from another thread of its domain.
        let locked = a.lock();
        broken.fetch_add(usize::from(locked.broken), Ordering::Relaxed);
        a.unlock(locked);
        walks.join().unwrap();
        again.join().unwrap();
        assert_eq!(broken.load(Ordering::Relaxed), 1, "one of them is told");
        assert!(a.is_free());
    });
}

#[test]
fn a_domain_that_dies_with_a_waiter_in_its_hands_forgets_nobody() {
    bounded(3, || {
        let all = members();
        let [a, dead, _] = all.clone();
        let done = Arc::new(AtomicBool::new(false));
        let dies = {
            let (done, dead) = (done.clone(), dead.clone());
            thread::spawn(move || {
                done.store(true, Ordering::SeqCst);
                dead.die_with_a_waiter();
            })
        };
        let hears = {
            let (a, dead) = (a.clone(), dead.clone());
            thread::spawn(move || {
                dies.join().unwrap();
                a.sweep(&dead);
                a.bury(&dead);
            })
        };
        a.wait_until(|| done.load(Ordering::SeqCst));
        hears.join().unwrap();
    });
}

#[test]
fn no_dead_waiter_is_woken_in_place_of_a_live_one() {
    bounded(3, || {
        let all = members();
        let [a, dead, c] = all.clone();
        dead.enroll();
        let done = Arc::new(AtomicBool::new(false));
        let notifies = {
            let (done, dead, a) = (done.clone(), dead.clone(), a.clone());
            thread::spawn(move || {
                // The exporter tells the others after this.
                a.sweep(&dead);
                a.bury(&dead);
                c.bury(&dead);
                done.store(true, Ordering::SeqCst);
                c.notify();
            })
        };
        a.wait_until(|| done.load(Ordering::SeqCst));
        notifies.join().unwrap();
    });
}
