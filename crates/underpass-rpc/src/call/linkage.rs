//! The linkage record of each slot: which caller waits for its reply. Private to the client, so
//! that the server can't misuse it.

use crate::call::waiting::WaiterSlot;
use crate::dispatch::incoming::Status;
use underpass_channel::{Cell, Head, INLINE, Payload, PeekedCell, Tag};
use underpass_seam::atomic::{AtomicU32, AtomicU64, Ordering};
use underpass_threads::Control;

/// No call is under way.
const IDLE: u32 = 0;
/// A caller waits for the reply.
const EXPECTED: u32 = 1;
/// The reply is here, and is not taken yet.
const ANSWERED: u32 = 2;
/// There will be no reply.
const LOST: u32 = 3;
/// A reply is expected, and nobody wants it any more.
const ABANDONED: u32 = 4;
/// A reply is expected, and the caller is told not to wait for it any more.
const FREED: u32 = 5;
/// A task waits for the reply. Its waker is in the waker table.
const WATCHED: u32 = 6;
/// The call collects late answers.
const COLLECTS: u32 = 7;
/// A late answer is here.
const COLLECTED: u32 = 8;
/// Nobody wants the call any more, and it has given its slot back.
const ABANDONED_LATE: u32 = 9;

/// One slot's linkage record (LRPC). *The lock* is that of the client's end.
///
/// | field | who writes it, and when |
/// |---|---|
/// | `state` | the caller writes `EXPECTED` before it posts and `IDLE` at the end, as does the thread that takes a late answer or a number; all else under the lock |
/// | `head`, `payload` | the thread that delivers, under the lock, before `ANSWERED` |
/// | `waiter_slot` | the caller that blocks, and the thread that settles or abandons the wait, under the lock |
/// | `row` | the caller, before it posts |
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Linkage {
    state: AtomicU32,
    pub(crate) waiter_slot: WaiterSlot,
    head: AtomicU64,
    payload: [AtomicU64; INLINE / 8],
    row: AtomicU64,
}

/// For whom the reply was.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Delivered {
    /// A thread. If it has blocked, it is to be woken after the lock.
    Taken(Option<&'static Control>),
    /// A task. Its waker is to be taken from the waker table under the same lock, and woken after
    /// it.
    Watched,
    /// Nobody any more. The slot is to be given back, and the out-of-band message if one came
    /// along.
    Abandoned,
    /// The call that collects late answers.
    Collected,
    /// No call is under way: no honest peer replies so.
    Unexpected,
}

/// Whether a task waits for a reply, after it was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskWait {
    /// The call is settled: the task need not wait.
    Settled,
    /// It waits from now on.
    Begun,
    /// It waited already.
    GoesOn,
}

impl Linkage {
    /// The caller is about to post.
    #[inline]
    pub(crate) fn expect(&self) {
        // Relaxed: the post publishes it to the server. The server's reply brings it to the thread
        // that delivers the reply.
        self.state.store(EXPECTED, Ordering::Relaxed);
    }

    /// As [`expect`](Self::expect), for a call that collects late answers. It is for no row. Under
    /// the lock.
    pub(crate) fn collects(&self) {
        self.is_for(Tag::NONE);
        // Relaxed: as in `expect`.
        self.state.store(COLLECTS, Ordering::Relaxed);
    }

    /// Takes the late answer that has come, if one has.
    pub(crate) fn take_collected(&self) -> Option<Cell> {
        // SYNC with the store in `deliver_odd`.
        let collected = self.state.load(Ordering::Acquire) == COLLECTED;
        collected.then(|| {
            self.clear();
            self.kept()
        })
    }

    /// The reply, if it says that the call is answered late. It stays here.
    pub(crate) fn late_reply(&self) -> Option<Cell> {
        // SYNC with the stores in `settle` and `deliver_odd`.
        let is_here = matches!(self.state.load(Ordering::Acquire), ANSWERED | ABANDONED_LATE);
        (is_here && self.head().what() == Status::Late as u16).then(|| self.kept())
    }

    /// Takes the reply to a call that was given up, if it brings interfaces.
    pub(crate) fn take_abandoned_interfaces(&self) -> Option<Cell> {
        // SYNC with the store in `deliver_odd`.
        let is_here = self.state.load(Ordering::Acquire) == ABANDONED_LATE;
        (is_here && self.head().what() == Status::DoneWithInterfaces as u16).then(|| {
            self.clear();
            self.kept()
        })
    }

    /// The call that is about to be posted is for the row `tag`.
    #[inline(always)]
    pub(crate) fn is_for(&self, tag: Tag) {
        // Relaxed, here and in `row`: the lock orders them.
        self.row.store(tag.word(), Ordering::Relaxed);
    }

    /// The row of the slot's last call. Under the lock.
    pub(crate) fn row(&self) -> Tag {
        Tag::of_word(self.row.load(Ordering::Relaxed))
    }

    /// Whether the caller need not wait: the reply is here, there will be none, or the caller is
    /// freed.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        // SYNC with the stores in `deliver` and `lose`: the reply.
        matches!(self.state.load(Ordering::Acquire), ANSWERED | LOST | FREED)
    }

    /// Whether there will be no reply.
    pub(crate) fn is_lost(&self) -> bool {
        // Relaxed: the lock orders it.
        self.state.load(Ordering::Relaxed) == LOST
    }

    /// Whether nobody wants the reply any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        // Relaxed: see `ChannelMailbox::forget_if`.
        self.state.load(Ordering::Relaxed) == ABANDONED
    }

    /// A reply has come. Under the lock.
    #[inline(always)]
    pub(crate) fn deliver(&self, reply: &PeekedCell<'_>) -> Delivered {
        match self.state.load(Ordering::Relaxed) {
            EXPECTED => {
                self.keep(reply);
                self.settle(ANSWERED)
            }
            state => self.deliver_odd(state, reply),
        }
    }

    /// A reply to a call whose state isn't `EXPECTED`.
    #[cold]
    #[inline(never)]
    fn deliver_odd(&self, state: u32, reply: &PeekedCell<'_>) -> Delivered {
        match state {
            FREED => {
                self.keep(reply);
                self.settle(ANSWERED)
            }
            WATCHED => {
                self.keep(reply);
                self.settle_for_task(ANSWERED)
            }
            ABANDONED
                if [Status::Late, Status::DoneWithInterfaces]
                    .iter()
                    .any(|s| *s as u16 == reply.head.what()) =>
            {
                self.keep(reply);
                // SYNC with the load in `late_reply`.
                self.state.store(ABANDONED_LATE, Ordering::Release);
                Delivered::Abandoned
            }
            ABANDONED => {
                self.state.store(IDLE, Ordering::Relaxed);
                Delivered::Abandoned
            }
            COLLECTS => {
                self.keep(reply);
                // SYNC with the load in `take_collected`.
                self.state.store(COLLECTED, Ordering::Release);
                Delivered::Collected
            }
            _ => Delivered::Unexpected,
        }
    }

    /// Whether a caller that has not blocked expects the reply. Under the lock.
    #[inline(always)]
    pub(crate) fn is_polled_for(&self) -> bool {
        self.state.load(Ordering::Relaxed) == EXPECTED && self.waiter_slot.is_empty()
    }

    /// Stores the reply where the caller finds it.
    #[inline(always)]
    fn keep(&self, reply: &PeekedCell<'_>) {
        // Relaxed, both: the state publishes them to the caller.
        self.head.store(reply.head.word(), Ordering::Relaxed);
        reply.words(|i, word| self.payload[i].store(word, Ordering::Relaxed));
    }

    #[inline]
    fn settle(&self, state: u32) -> Delivered {
        // SYNC with the load in `is_settled`.
        self.state.store(state, Ordering::Release);
        Delivered::Taken(self.waiter_slot.leave())
    }

    fn settle_for_task(&self, state: u32) -> Delivered {
        // SYNC with the load in `is_settled`.
        self.state.store(state, Ordering::Release);
        Delivered::Watched
    }

    /// A task waits for the reply, unless it is settled. Its waker goes into the waker table under
    /// the same lock.
    pub(crate) fn watch(&self) -> TaskWait {
        match self.state.load(Ordering::Relaxed) {
            EXPECTED => {
                self.state.store(WATCHED, Ordering::Relaxed);
                TaskWait::Begun
            }
            WATCHED => TaskWait::GoesOn,
            _ => TaskWait::Settled,
        }
    }

    /// The task polls by itself again. Under the lock. Returns `false` if no task waited: then the
    /// waker table has no waker for this slot.
    pub(crate) fn unwatch(&self) -> bool {
        let watched = self.state.load(Ordering::Relaxed) == WATCHED;
        if watched {
            self.state.store(EXPECTED, Ordering::Relaxed);
        }
        watched
    }

    /// There will be no reply. Under the lock.
    pub(crate) fn lose(&self) -> Delivered {
        match self.state.load(Ordering::Relaxed) {
            EXPECTED | FREED => self.settle(LOST),
            WATCHED => self.settle_for_task(LOST),
            ABANDONED => {
                self.state.store(IDLE, Ordering::Relaxed);
                Delivered::Abandoned
            }
            _ => Delivered::Taken(None),
        }
    }

    /// The caller is to stop waiting. If it has blocked, it is to be woken after the lock. Under
    /// the lock.
    pub(crate) fn free(&self) -> Delivered {
        match self.state.load(Ordering::Relaxed) {
            EXPECTED => self.settle(FREED),
            WATCHED => self.settle_for_task(FREED),
            _ => Delivered::Taken(None),
        }
    }

    /// Whether the caller is told to stop waiting.
    pub(crate) fn is_freed(&self) -> bool {
        // Relaxed: `abandon` checks it again under the lock.
        self.state.load(Ordering::Relaxed) == FREED
    }

    /// Nobody wants the reply any more. Under the lock. Returns `false` if the reply is here.
    pub(crate) fn abandon(&self) -> bool {
        let expected = matches!(self.state.load(Ordering::Relaxed), EXPECTED | FREED);
        if expected {
            self.state.store(ABANDONED, Ordering::Relaxed);
        }
        expected
    }

    /// If the reply is settled, its outcome is `what` and its bytes lie in the cell: passes its
    /// words to `put`, clears the record, and returns the number of bytes. Else leaves the record
    /// as it is.
    #[inline(always)]
    pub(crate) fn take_inline(&self, what: u16, mut put: impl FnMut(usize, u64)) -> Option<usize> {
        // SYNC as in `is_settled`. Relaxed, the rest: the state brought it.
        if self.state.load(Ordering::Acquire) != ANSWERED {
            return None;
        }
        let len = self.head().inline_len(what)?;
        for (i, word) in self.payload.iter().enumerate().take(len.div_ceil(8)) {
            // Relaxed: the state brought them.
            put(i, word.load(Ordering::Relaxed));
        }
        self.clear();
        Some(len)
    }

    /// The number of bytes that the reply has in the A-stack, as the peer says. Nothing unless the
    /// reply is here, its outcome is `what` and its bytes lie there. Leaves the record as it is.
    #[inline(always)]
    pub(crate) fn stacked(&self, what: u16) -> Option<usize> {
        // SYNC as in `is_settled`. Relaxed, the rest: the state brought it.
        let answered = self.state.load(Ordering::Acquire) == ANSWERED;
        (answered && self.head().is_stacked(what))
            .then(|| (self.payload[0].load(Ordering::Relaxed) >> Tag::BITS) as usize)
    }

    /// The reply has been taken.
    #[inline(always)]
    pub(crate) fn clear(&self) {
        self.state.store(IDLE, Ordering::Relaxed);
    }

    /// The head of a reply that is here.
    #[inline(always)]
    fn head(&self) -> Head {
        // Relaxed: the state brought it.
        Head::from_word(self.head.load(Ordering::Relaxed))
    }

    /// The outcome of the reply, if it is here and not yet taken.
    pub(crate) fn answered(&self) -> Option<u16> {
        // SYNC as in `is_settled`. Relaxed, the rest: the state brought it.
        let answered = self.state.load(Ordering::Acquire) == ANSWERED;
        answered.then(|| self.head().what())
    }

    /// The reply, once it is settled. Nothing if it is lost.
    #[inline]
    pub(crate) fn take(&self) -> Option<Cell> {
        // SYNC as in `is_settled`.
        let answered = self.state.load(Ordering::Acquire) == ANSWERED;
        self.state.store(IDLE, Ordering::Relaxed);
        if !answered {
            return None;
        }
        Some(self.kept())
    }

    /// The reply that is here.
    fn kept(&self) -> Cell {
        let mut payload = Payload::new();
        for (i, word) in self.payload.iter().enumerate() {
            // Relaxed: the state brought them.
            payload.set_word(i, word.load(Ordering::Relaxed));
        }
        Cell::from_parts(self.head(), payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use underpass_channel::{HeapMemory, Receiving, Sending};

    /// What comes of it once it has passed through a ring.
    fn deliver(linkage: &Linkage, cell: &Cell) -> Delivered {
        let words = Arc::new(HeapMemory::new(32));
        let ring = Receiving::new(words.clone(), 0, 4);
        Sending::new(words, 0, 4).post(cell, 0);
        let coming = ring.peek().unwrap().unwrap();
        linkage.deliver(&coming)
    }

    #[test]
    fn a_reply_is_taken_once() {
        let linkage = Linkage::default();
        let cell = Cell::inline(3, 9, b"0123456789").unwrap();
        assert!(matches!(deliver(&linkage, &cell), Delivered::Unexpected));
        linkage.expect();
        assert!(!linkage.is_settled());
        assert!(matches!(deliver(&linkage, &cell), Delivered::Taken(None)));
        assert!(matches!(deliver(&linkage, &cell), Delivered::Unexpected));
        assert!(linkage.is_settled());
        assert_eq!(linkage.take(), Some(cell));
        assert_eq!(linkage.take(), None);
    }

    #[test]
    fn a_lost_call_has_no_reply() {
        let linkage = Linkage::default();
        linkage.expect();
        assert!(matches!(linkage.lose(), Delivered::Taken(None)));
        assert!(linkage.is_settled());
        assert_eq!(linkage.take(), None);
    }

    #[test]
    fn a_caller_that_is_freed_may_find_its_reply_all_the_same() {
        let linkage = Linkage::default();
        let cell = Cell::inline(3, 9, b"0123456789").unwrap();
        let freed = || matches!(linkage.free(), Delivered::Taken(None));
        assert!(freed() && !linkage.is_freed(), "no call");
        linkage.expect();
        assert!(freed() && linkage.is_freed() && linkage.is_settled());
        assert!(matches!(deliver(&linkage, &cell), Delivered::Taken(None)));
        assert!(!linkage.abandon() && !linkage.is_freed());
        assert_eq!(linkage.take(), Some(cell));
        linkage.expect();
        assert!(freed() && linkage.abandon());
        assert!(matches!(deliver(&linkage, &cell), Delivered::Abandoned));
    }

    #[test]
    fn a_task_is_watched_for_until_its_reply_comes() {
        let linkage = Linkage::default();
        assert_eq!((linkage.watch(), linkage.unwatch()), (TaskWait::Settled, false), "there is no call");
        linkage.expect();
        assert_eq!((linkage.watch(), linkage.watch()), (TaskWait::Begun, TaskWait::GoesOn));
        assert!(linkage.unwatch() && !linkage.unwatch());
        assert_eq!(linkage.watch(), TaskWait::Begun);
        assert!(matches!(deliver(&linkage, &Cell::new(0, 0)), Delivered::Watched));
        assert!(linkage.is_settled() && !linkage.unwatch());
        assert_eq!(linkage.watch(), TaskWait::Settled);
        assert!(linkage.take().is_some());
        linkage.expect();
        linkage.watch();
        assert!(matches!(linkage.free(), Delivered::Watched) && linkage.is_freed() && !linkage.unwatch());
        assert!(linkage.abandon());
        assert!(matches!(deliver(&linkage, &Cell::new(0, 0)), Delivered::Abandoned));
        linkage.expect();
        linkage.watch();
        assert!(matches!(linkage.lose(), Delivered::Watched));
        assert_eq!(linkage.take(), None);
    }

    #[test]
    fn an_abandoned_slot_comes_back_with_its_reply() {
        let linkage = Linkage::default();
        linkage.expect();
        assert!(linkage.abandon());
        assert!(!linkage.abandon());
        assert!(matches!(deliver(&linkage, &Cell::new(0, 0)), Delivered::Abandoned));
        assert!(matches!(deliver(&linkage, &Cell::new(0, 0)), Delivered::Unexpected));
    }
}
