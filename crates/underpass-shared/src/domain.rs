//! This domain as a member of a region: what it keeps to itself, and how its threads wait and are
//! woken. The names of steps are those of `README.md`.

use crate::bell;
use crate::layout::{self, MEMBERS, QUEUE, TICKETS, WAITERS};
use crate::member::{Deaths, MemberId};
use crate::runtime::{BellSpin, Woken, suspend, write_then_read};
use crate::thread_name::ThreadName;
use crate::waiters::{OwnWaiter, RegionWaiters};
use crate::words::RegionWords;
use std::sync::OnceLock;
use underpass_os::failpoint;
use underpass_seam::atomic::Ordering;

/// How often a thread tries to take a waiter out of a queue, where others were faster each time.
const TRIES: usize = 1024;

/// How another domain's thread is told to look again.
pub(crate) trait WakeForeign: Send + Sync {
    /// Has the scheduler of `name.domain` wake the thread `name`, if that one still waits. It must
    /// not wait, whatever that domain does.
    fn wake(&self, words: &RegionWords, name: ThreadName);
}

/// Where the objects of a region lie.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    /// The words of all locks, in rising order.
    pub(crate) locks: Vec<usize>,
    /// All queues.
    pub(crate) queues: Vec<usize>,
}

/// This domain's membership.
pub(crate) struct LocalDomain {
    pub(crate) words: RegionWords,
    pub(crate) me: MemberId,
    pub(crate) deaths: Deaths,
    pub(crate) waiters: RegionWaiters,
    /// Set once, when the region is opened.
    pub(crate) objects: OnceLock<Objects>,
    foreign: Box<dyn WakeForeign>,
    spin: BellSpin,
}

impl LocalDomain {
    pub(crate) fn new(words: RegionWords, me: MemberId) -> Self {
        Self::waking_by(words, me, Box::new(bell::RegionBell))
    }

    /// A member that wakes other domains' threads by `foreign`.
    pub(crate) fn waking_by(words: RegionWords, me: MemberId, foreign: Box<dyn WakeForeign>) -> Self {
        Self {
            words,
            me,
            deaths: Deaths::none(),
            waiters: RegionWaiters::new(),
            objects: OnceLock::new(),
            foreign,
            spin: BellSpin::default(),
        }
    }

    /// The next place in the order of the object at `object`.
    pub(crate) fn ticket(&self, object: usize) -> u64 {
        // Relaxed: a number. A lie about it changes nothing but the order.
        self.words.word(object + TICKETS).fetch_add(1, Ordering::Relaxed)
    }

    /// E1 to E5: puts the calling thread into `queue`. `None` if all waiters of this domain are
    /// taken.
    ///
    /// From now on two things wake the thread: another thread takes it out, or this domain hears of
    /// a death.
    pub(crate) fn enroll(&self, queue: usize, ticket: u64) -> Option<Enrollment<'_>> {
        let index = self.waiters.take()?;
        let waiter = self.waiters.get(index)?;
        // E2. What the last opener of the gate did before is seen.
        waiter.gate.pass();
        let name = self.waiters.rename(index);
        // SYNC with the load in `deliver`.
        waiter.queue.store(queue as u64, Ordering::Release);
        let record = layout::record(self.me.index, index);
        // Relaxed: SYNC is that of the bit.
        self.words.word(record + layout::NAME).store(name, Ordering::Relaxed);
        self.words.word(record + layout::TICKET).store(ticket, Ordering::Relaxed);
        self.words.word(record + layout::WANTS).store(queue as u64, Ordering::Relaxed);
        // E5: SYNC with the loads in `take_out`: the record; and before what the caller reads next.
        self.words.word(queue + self.me.index).fetch_or(1 << index, Ordering::SeqCst);
        write_then_read();
        failpoint!("shared-enrolled");
        Some(Enrollment { domain: self, index, queue })
    }

    /// T1 to T3: takes the waiter with the lowest ticket out of `queue`. The caller has to wake it.
    pub(crate) fn take_out(&self, queue: usize) -> Option<ThreadName> {
        // T1 was the caller's write.
        write_then_read();
        for _ in 0..TRIES {
            let (member, index) = self.first(queue)?;
            let name = ThreadName::read(&self.words, member, index);
            let bit = 1 << index;
            // T3: one taker gets it. SYNC with the load in `LocalDomain::deliver`.
            if self.words.word(queue + member).fetch_and(!bit, Ordering::SeqCst) & bit != 0 {
                failpoint!("shared-taken");
                return Some(name);
            }
        }
        None
    }

    /// The waiter of `queue` with the lowest ticket: at most `MEMBERS` words and `WAITERS` records
    /// for each are read.
    fn first(&self, queue: usize) -> Option<(usize, usize)> {
        let mut first: Option<(u64, usize, usize)> = None;
        for member in 0..MEMBERS {
            // SeqCst: after the caller's change of what is waited for.
            let mut bits = self.words.word(queue + member).load(Ordering::SeqCst);
            while bits != 0 {
                let index = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if index >= WAITERS {
                    break;
                }
                let record = layout::record(member, index);
                // Relaxed: SYNC is that of the bit, which was loaded with more.
                let word = |place: usize| self.words.word(record + place).load(Ordering::Relaxed);
                if word(layout::WANTS) != queue as u64 {
                    continue;
                }
                let ticket = word(layout::TICKET);
                if first.is_none_or(|(than, ..)| (ticket.wrapping_sub(than) as i64) < 0) {
                    first = Some((ticket, member, index));
                }
            }
        }
        first.map(|(_, member, index)| (member, index))
    }

    /// K: wakes a thread that the caller has taken out. If it is one of this domain, that is a
    /// procedure call; else its own domain's scheduler is told.
    pub(crate) fn wake(&self, name: ThreadName) {
        if name.domain == self.me.index {
            self.deliver(name);
        } else {
            self.foreign.wake(&self.words, name);
        }
    }

    /// Takes the first waiter out of `queue` and wakes it. Returns whether there was one.
    pub(crate) fn wake_first(&self, queue: usize) -> bool {
        self.take_out(queue).map(|name| self.wake(name)).is_some()
    }

    /// Takes out and wakes all that are in `queue`. A thread that comes back meanwhile may be woken
    /// again, but this ends.
    pub(crate) fn wake_all(&self, queue: usize) {
        for _ in 0..MEMBERS * WAITERS {
            if !self.wake_first(queue) {
                return;
            }
        }
    }

    /// D: a thread of this domain was signalled by `name`. It is woken if the name is that of its
    /// wait, or if it is not in its queue any more.
    pub(crate) fn deliver(&self, name: ThreadName) {
        let Some(waiter) = self.waiters.get(name.index) else { return };
        // Relaxed: a thread that gets its name afterwards looks at what it waits for afterwards.
        let named = waiter.name.load(Ordering::Relaxed) == name.word();
        if named || self.is_taken_out(name.index) {
            waiter.tell();
        }
    }

    /// E6 for the waiter of this number.
    pub(crate) fn suspend_as(
        &self,
        index: usize,
        kind: &'static str,
        deadline_ns: Option<u64>,
        cancellable: bool,
    ) -> Woken {
        let Some(waiter) = self.waiters.get(index) else { return Woken::Woken };
        let came = || {
            self.poll();
            waiter.gate.is_open()
        };
        let block = || suspend(&waiter.gate, kind, deadline_ns, cancellable);
        let slept = self.spin.spin_then(deadline_ns, || self.begin_polling(), came, block);
        slept.unwrap_or(Woken::Woken)
    }

    fn is_taken_out(&self, index: usize) -> bool {
        // SYNC with the store in `enroll`.
        let queue = self.waiters.get(index).map_or(0, |waiter| waiter.queue.load(Ordering::Acquire) as usize);
        // SYNC with the fetch_and in `take_out`.
        queue != 0 && self.words.word(queue + self.me.index).load(Ordering::SeqCst) & 1 << index == 0
    }

    /// W1 to W3: `member` is dead. Frees the locks that name it, and makes all waiters of this
    /// domain look again. Any number of domains may do this at once, and again.
    pub(crate) fn bury(&self, member: MemberId) {
        if member == self.me {
            // The exporter has taken this domain's membership away.
            return self.end();
        }
        if member.index < MEMBERS {
            self.deaths.add(member);
            self.free_locks_of(member);
        }
        self.look_again();
    }

    /// W2.
    fn free_locks_of(&self, member: MemberId) {
        for lock in self.objects.get().map_or(&[][..], |objects| &objects.locks) {
            crate::raw_lock::RawLock::at(self, *lock).free_from(member);
        }
    }

    /// W3: every waiter of this domain looks again at what it waits for.
    pub(crate) fn look_again(&self) {
        self.waiters.iter().for_each(OwnWaiter::tell);
    }

    /// The region has ended. No wait goes on.
    pub(crate) fn end(&self) {
        self.deaths.end();
        self.look_again();
    }

    /// Removes the waiters of a dead member from all queues. Only the exporter calls this, before
    /// it announces the death and gives the index away again.
    #[cfg_attr(underpass_loom, allow(dead_code))]
    pub(crate) fn sweep(&self, member: MemberId) {
        if member.index >= MEMBERS {
            return;
        }
        for queue in self.objects.get().map_or(&[][..], |objects| &objects.queues) {
            // SeqCst: before the announcement.
            self.words.word(queue + member.index).store(0, Ordering::SeqCst);
        }
    }
}

impl std::fmt::Debug for LocalDomain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalDomain").field("me", &self.me).finish_non_exhaustive()
    }
}

/// The calling thread is in a queue, until this is dropped.
pub(crate) struct Enrollment<'a> {
    domain: &'a LocalDomain,
    index: usize,
    queue: usize,
}

impl Enrollment<'_> {
    /// E6: suspends the calling thread until it is told to look again, or `deadline_ns`. Before, it
    /// polls the bell for about as long as a wake-up costs.
    pub(crate) fn suspend(&self, kind: &'static str, deadline_ns: Option<u64>, cancellable: bool) -> Woken {
        failpoint!("shared-waits");
        self.domain.suspend_as(self.index, kind, deadline_ns, cancellable)
    }

    /// E6 for a task. `true`: it is to look again now; else `waker` is woken then.
    #[cfg(not(underpass_loom))]
    pub(crate) fn is_told(&self, waker: &std::task::Waker) -> bool {
        let Some(waiter) = self.domain.waiters.get(self.index) else { return true };
        // An opener of the gate finds the waker, or has opened the gate before the look.
        waiter.task.set(waker);
        waiter.gate.is_open()
    }

    /// E7: leaves the queue. `true`: another thread had taken this one out before.
    pub(crate) fn leave(self) -> bool {
        let taken = self.withdraw();
        std::mem::forget(self);
        taken
    }

    /// The number of the waiter, which stays enrolled.
    #[cfg(underpass_loom)]
    pub(crate) fn forget(self) -> usize {
        let index = self.index;
        std::mem::forget(self);
        index
    }

    fn withdraw(&self) -> bool {
        let domain = self.domain;
        let bit = 1 << self.index;
        let word = domain.words.word(self.queue + domain.me.index);
        // In a region that has ended for this domain, another one may have its index.
        let taken = match domain.deaths.are_over() {
            true => false,
            // SeqCst: one of this and the fetch_and in `take_out` finds the bit.
            false => word.fetch_and(!bit, Ordering::SeqCst) & bit == 0,
        };
        if let Some(waiter) = domain.waiters.get(self.index) {
            // Relaxed: a late reader opens the gate of a thread that looks again anyway.
            waiter.queue.store(0, Ordering::Relaxed);
            waiter.task.clear();
        }
        domain.waiters.give_back(self.index);
        taken
    }
}

impl Drop for Enrollment<'_> {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// The queue of the object at `object`.
pub(crate) fn queue_of(object: usize) -> usize {
    object + QUEUE
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;
    use crate::layout::OBJECTS;

    const QUEUE_AT: usize = OBJECTS;

    fn domain() -> LocalDomain {
        let (words, _) = RegionWords::create(OBJECTS + 64).unwrap();
        LocalDomain::new(words, MemberId { index: 3, generation: 9 })
    }

    /// Whether the waiter's thread would look again.
    fn is_told(domain: &LocalDomain, index: usize) -> bool {
        domain.waiters.get(index).unwrap().gate.is_open()
    }

    #[test]
    fn only_its_name_wakes_a_waiter_that_is_in_its_queue() {
        let domain = domain();
        let enrolled = domain.enroll(QUEUE_AT, 0).unwrap();
        let name = ThreadName::read(&domain.words, 3, enrolled.index);
        let others = [
            ThreadName { key: name.key ^ 1, ..name },
            ThreadName { generation: name.generation + 1, ..name },
            ThreadName { index: 99, ..name },
        ];
        for other in others {
            domain.deliver(other);
            assert!(!is_told(&domain, enrolled.index), "{other:?}");
        }
        domain.deliver(name);
        assert!(is_told(&domain, enrolled.index));
    }

    #[test]
    fn a_name_is_of_one_wait() {
        let domain = domain();
        let first = domain.enroll(QUEUE_AT, 0).unwrap();
        let name = ThreadName::read(&domain.words, 3, first.index);
        assert!(!first.leave());
        let second = domain.enroll(QUEUE_AT, 0).unwrap();
        let next = ThreadName::read(&domain.words, 3, second.index);
        assert_eq!((name.index, name.generation + 1), (next.index, next.generation));
        assert_ne!(name.key, next.key, "keys don't follow from each other");
        domain.deliver(name);
        assert!(!is_told(&domain, second.index));
    }

    #[test]
    fn a_waiter_that_was_taken_out_is_woken_by_any_name() {
        let domain = domain();
        let enrolled = domain.enroll(QUEUE_AT, 0).unwrap();
        let name = domain.take_out(QUEUE_AT).unwrap();
        assert_eq!(domain.take_out(QUEUE_AT), None, "it is taken out once");
        // A name of a former wait has overwritten this one's.
        domain.deliver(ThreadName { generation: name.generation.wrapping_sub(1), ..name });
        assert!(is_told(&domain, enrolled.index));
        assert!(enrolled.leave());
    }

    #[test]
    fn waiters_are_taken_out_in_the_order_of_their_tickets() {
        let domain = domain();
        let waiters: Vec<_> =
            [7, 5, u64::MAX, 6].map(|ticket| domain.enroll(QUEUE_AT, ticket).unwrap()).into();
        let order: Vec<_> = (0..4).map(|_| domain.take_out(QUEUE_AT).unwrap().index).collect();
        let expected: Vec<_> = [2, 1, 3, 0].iter().map(|&at: &usize| waiters[at].index).collect();
        assert_eq!(order, expected, "tickets wrap around");
    }

    #[test]
    fn waiters_are_limited_and_come_back() {
        let domain = domain();
        let mut all: Vec<_> = (0..WAITERS).map(|_| domain.enroll(QUEUE_AT, 0).unwrap()).collect();
        assert!(domain.enroll(QUEUE_AT, 0).is_none());
        all.pop();
        assert!(domain.enroll(QUEUE_AT, 0).is_some());
    }

    #[test]
    fn bits_of_waiters_that_want_something_else_are_passed_over() {
        let domain = domain();
        for member in 0..MEMBERS {
            domain.words.word(QUEUE_AT + member).store(u64::MAX, Ordering::SeqCst);
        }
        assert_eq!(domain.take_out(QUEUE_AT), None);
        let enrolled = domain.enroll(QUEUE_AT, 0).unwrap();
        let name = domain.take_out(QUEUE_AT).unwrap();
        assert_eq!((name.domain, name.index), (3, enrolled.index));
    }

    #[test]
    fn a_death_frees_only_locks_that_name_the_dead() {
        let domain = domain();
        domain.objects.set(Objects { locks: vec![OBJECTS, OBJECTS + 24], queues: Vec::new() }).unwrap();
        let dead = MemberId { index: 5, generation: 4 };
        let word = |member: MemberId| 1 | (member.index as u64) << 8 | u64::from(member.generation) << 32;
        let later = MemberId { generation: 6, ..dead };
        domain.words.word(OBJECTS).store(word(dead), Ordering::SeqCst);
        domain.words.word(OBJECTS + 24).store(word(later), Ordering::SeqCst);
        domain.words.word(OBJECTS + 1).store(word(dead), Ordering::SeqCst);
        for _ in 0..2 {
            domain.bury(dead);
            let now = |at: usize| domain.words.word(OBJECTS + at).load(Ordering::SeqCst);
            assert_eq!((now(0) & 1, now(24), now(1)), (0, word(later), word(dead)));
        }
        assert!(domain.deaths.has(dead) && !domain.deaths.has(later));
    }
}
