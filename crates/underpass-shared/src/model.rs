//! What the models of this crate use: members of one region, each in the place of a domain.

use crate::domain::{LocalDomain, Objects, WakeForeign, queue_of};
use crate::layout::{MEMBERS, OBJECTS, QUEUED};
use crate::member::MemberId;
use crate::raw_lock::{Found, Held, LeftAs, RawLock};
use crate::runtime::{Woken, suspend};
use crate::thread_name::ThreadName;
use crate::words::RegionWords;
use std::sync::{Arc, OnceLock};
use underpass_seam::atomic::Ordering;

/// The lock, and the condition behind it.
const LOCK: usize = OBJECTS;
const CONDITION: usize = OBJECTS + QUEUED;
const WORDS: usize = OBJECTS + 2 * QUEUED;

/// Wakes threads of other domains by a procedure call: the bell has a model of its own.
#[derive(Clone, Default)]
struct Directly(Arc<OnceLock<Vec<std::sync::Weak<LocalDomain>>>>);

impl WakeForeign for Directly {
    fn wake(&self, _: &RegionWords, name: ThreadName) {
        let domain = self.0.get().and_then(|all| all[name.domain].upgrade());
        domain.expect("a model's domains live to its end").deliver(name);
    }
}

/// A member of the region.
#[derive(Clone, Debug)]
pub struct ModelMember(Arc<LocalDomain>);

/// The right to what the lock guards.
#[derive(Debug)]
pub struct Locked {
    held: Held,
    /// The last owner died.
    pub broken: bool,
}

fn region(foreign: impl Fn() -> Box<dyn WakeForeign>) -> [ModelMember; MEMBERS] {
    let words = RegionWords::new(WORDS);
    std::array::from_fn(|index| {
        let me = MemberId { index, generation: index as u32 + 1 };
        let domain = LocalDomain::waking_by(words.clone(), me, foreign());
        let queues = vec![queue_of(LOCK), queue_of(CONDITION)];
        domain.objects.set(Objects { locks: vec![LOCK], queues }).expect("it is set once");
        ModelMember(Arc::new(domain))
    })
}

/// The members of a new region.
pub fn members() -> [ModelMember; MEMBERS] {
    let directly = Directly::default();
    let members = region(|| Box::new(directly.clone()));
    let all = members.iter().map(|member| Arc::downgrade(&member.0)).collect();
    assert!(directly.0.set(all).is_ok());
    members
}

/// The members of a new region. They wake each other by bells.
pub fn members_with_bells() -> [ModelMember; MEMBERS] {
    region(|| Box::new(crate::bell::RegionBell))
}

impl ModelMember {
    fn raw(&self) -> RawLock<'_> {
        RawLock::at(&self.0, LOCK)
    }

    /// Takes the lock.
    pub fn lock(&self) -> Locked {
        self.within(None).expect("only a deadline ends this")
    }

    /// As `lock`, with a deadline that passes at any moment.
    pub fn lock_or_late(&self) -> Option<Locked> {
        self.within(Some(0))
    }

    fn within(&self, deadline_ns: Option<u64>) -> Option<Locked> {
        let held = self.raw().lock(deadline_ns).ok()?;
        Some(Locked { broken: held.found == Found::Broken, held })
    }

    /// Releases the lock.
    pub fn unlock(&self, locked: Locked) {
        self.raw().unlock(locked.held, LeftAs::Whole);
    }

    /// Waits once at the condition, and takes the lock again.
    pub fn wait(&self, locked: Locked) -> Locked {
        let queue = queue_of(CONDITION);
        let enrolled = self.0.enroll(queue, self.0.ticket(CONDITION)).expect("a model has waiters enough");
        self.unlock(locked);
        let woken = enrolled.suspend("a condition", None, true);
        assert_eq!(woken, Woken::Woken);
        enrolled.leave();
        self.lock()
    }

    /// Wakes the first waiter at the condition.
    pub fn notify(&self) {
        self.0.wake_first(queue_of(CONDITION));
    }

    /// Enrolls at the condition and waits until `done`, as a thread of another domain would have
    /// it.
    pub fn wait_until(&self, done: impl Fn() -> bool) {
        while !done() {
            let queue = queue_of(CONDITION);
            let enrolled =
                self.0.enroll(queue, self.0.ticket(CONDITION)).expect("a model has waiters enough");
            if !done() {
                enrolled.suspend("a condition", None, true);
            }
            enrolled.leave();
        }
    }

    /// Hears of the death of `other`: W1 to W3.
    pub fn bury(&self, other: &ModelMember) {
        self.0.bury(other.0.me);
    }

    /// As the exporter: W0.
    pub fn sweep(&self, other: &ModelMember) {
        self.0.sweep(other.0.me);
    }

    /// Enrolls at the condition, and gives the number of the waiter.
    pub fn enroll(&self) -> usize {
        let enrolled = self.0.enroll(queue_of(CONDITION), 0).expect("a model has waiters enough");
        enrolled.forget()
    }

    /// Waits as the waiter of this number, which was enrolled.
    pub fn wait_as(&self, waiter: usize) {
        let gate = &self.0.waiters.get(waiter).expect("it was enrolled").gate;
        assert_eq!(suspend(gate, "a condition", None, true), Woken::Woken);
    }

    /// The same, but it polls the bell before.
    pub fn poll_as(&self, waiter: usize) {
        assert_eq!(self.0.suspend_as(waiter, "a condition", None, true), Woken::Woken);
    }

    /// Takes a waiter out of the condition's queue, and dies.
    pub fn die_with_a_waiter(&self) {
        let _ = self.0.take_out(queue_of(CONDITION));
    }

    /// Hears the bell once, after a sleep if nobody has rung.
    pub fn listen(&self) {
        while !self.0.hear() {
            self.0.doze(|| false);
        }
    }

    /// Hears the bell until it `is_over`, as a region's listener does.
    pub fn listen_until(&self, is_over: impl Fn() -> bool) {
        while !is_over() {
            if !self.0.hear() {
                self.0.doze(&is_over);
            }
        }
    }

    /// Makes the listener look at whether it is over.
    pub fn rouse_listener(&self) {
        self.0.rouse_listener();
    }

    /// Whether the lock's word names nobody.
    pub fn is_free(&self) -> bool {
        self.0.words.word(LOCK).load(Ordering::SeqCst) & 1 == 0
    }
}
