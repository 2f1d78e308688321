//! Who waits for which call: private to the client, so that a server can't make anything of it.

use crate::call::waiting::Berth;
use crate::counters::SlotCount;
use underpass_channel::{Cell, Coming, Head, INLINE, Payload};
use underpass_seam::atomic::{AtomicU32, AtomicU64, Ordering};
use underpass_threads::Control;

/// No call is under way.
const IDLE: u32 = 0;
/// A reply is awaited.
const EXPECTED: u32 = 1;
/// The reply is here, not yet taken.
const ANSWERED: u32 = 2;
/// There will be no reply.
const LOST: u32 = 3;
/// A reply is awaited, and nobody wants it any more.
const ABANDONED: u32 = 4;
/// A reply is awaited, and the caller is not to wait for it any more.
const FREED: u32 = 5;
/// A reply is awaited by a task, whose waker the vigil has.
const WATCHED: u32 = 6;

/// One slot's linkage record (LRPC). *The lock* is that of the client's end.
///
/// | field | who writes it, and when |
/// |---|---|
/// | `state` | the caller `EXPECTED` before it posts and `IDLE` at the end; all else under the lock |
/// | `head`, `payload` | who delivers, under the lock, before `ANSWERED` |
/// | `berth` | the caller that blocks, and who settles or abandons the wait, under the lock |
/// | `count` | the caller |
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Linkage {
    state: AtomicU32,
    pub(crate) berth: Berth,
    head: AtomicU64,
    payload: [AtomicU64; INLINE / 8],
    pub(crate) count: SlotCount,
}

/// What a delivery met.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Delivered {
    /// Somebody who waits; it is to be woken after the lock, if it has blocked.
    Taken(Option<&'static Control>),
    /// A task: its waker is to be taken from the vigil under the same lock, and woken after it.
    Watched,
    /// Nobody any more: the slot, and the parcel that came along if one did, is to be given back.
    Abandoned,
    /// No call under way: no honest peer replies so.
    Unexpected,
}

impl Linkage {
    /// The caller is about to post.
    #[inline]
    pub(crate) fn expect(&self) {
        // Relaxed: the post publishes it to the server, whose reply brings it to who delivers.
        self.state.store(EXPECTED, Ordering::Relaxed);
    }

    /// Whether there is a reply, or will be none, or the caller is not to wait for it.
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
    pub(crate) fn deliver(&self, reply: &Coming<'_>) -> Delivered {
        match self.state.load(Ordering::Relaxed) {
            EXPECTED => {
                self.keep(reply);
                self.settle(ANSWERED)
            }
            state => self.deliver_odd(state, reply),
        }
    }

    /// The same, where nobody waits as callers do.
    #[cold]
    #[inline(never)]
    fn deliver_odd(&self, state: u32, reply: &Coming<'_>) -> Delivered {
        match state {
            FREED => {
                self.keep(reply);
                self.settle(ANSWERED)
            }
            WATCHED => {
                self.keep(reply);
                self.settle_for_task(ANSWERED)
            }
            ABANDONED => {
                self.state.store(IDLE, Ordering::Relaxed);
                Delivered::Abandoned
            }
            _ => Delivered::Unexpected,
        }
    }

    /// Whether a caller that has not blocked expects the reply. Under the lock.
    #[inline(always)]
    pub(crate) fn is_polled_for(&self) -> bool {
        self.state.load(Ordering::Relaxed) == EXPECTED && self.berth.is_empty()
    }

    /// Keeps what the caller is to find.
    #[inline(always)]
    fn keep(&self, reply: &Coming<'_>) {
        // Relaxed, both: the state publishes them to the caller.
        self.head.store(reply.head.word(), Ordering::Relaxed);
        reply.words(|i, word| self.payload[i].store(word, Ordering::Relaxed));
    }

    #[inline]
    fn settle(&self, state: u32) -> Delivered {
        // SYNC with the load in `is_settled`.
        self.state.store(state, Ordering::Release);
        Delivered::Taken(self.berth.leave())
    }

    fn settle_for_task(&self, state: u32) -> Delivered {
        // SYNC with the load in `is_settled`.
        self.state.store(state, Ordering::Release);
        Delivered::Watched
    }

    /// The caller is a task, whose waker the vigil is given under the same lock: `Some` of whether
    /// it had none before; nothing if the call is settled.
    pub(crate) fn watch(&self) -> Option<bool> {
        let before = self.state.load(Ordering::Relaxed);
        let awaited = matches!(before, EXPECTED | WATCHED);
        if awaited {
            self.state.store(WATCHED, Ordering::Relaxed);
        }
        awaited.then_some(before == EXPECTED)
    }

    /// The task looks by itself again. Under the lock. `false` if it was not watched for: then the
    /// vigil has no waker of it.
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

    /// The caller is not to wait any more; it is to be woken after the lock, if it has blocked.
    /// Under the lock.
    pub(crate) fn free(&self) -> Delivered {
        match self.state.load(Ordering::Relaxed) {
            EXPECTED => self.settle(FREED),
            WATCHED => self.settle_for_task(FREED),
            _ => Delivered::Taken(None),
        }
    }

    /// Whether the caller is not to wait any more.
    pub(crate) fn is_freed(&self) -> bool {
        // Relaxed: it says so again under the lock, by `abandon`.
        self.state.load(Ordering::Relaxed) == FREED
    }

    /// Nobody wants the reply any more. Under the lock. `false` if it is here.
    pub(crate) fn abandon(&self) -> bool {
        let expected = matches!(self.state.load(Ordering::Relaxed), EXPECTED | FREED);
        if expected {
            self.state.store(ABANDONED, Ordering::Relaxed);
        }
        expected
    }

    /// Shows the words of the reply, once it is settled, if its outcome is `what` and they lay in
    /// the cell, and says how many; else it is left as it is.
    #[inline(always)]
    pub(crate) fn take_brief(&self, what: u16, mut put: impl FnMut(usize, u64)) -> Option<usize> {
        // SYNC as in `is_settled`. Relaxed, the rest: the state brought it.
        if self.state.load(Ordering::Acquire) != ANSWERED {
            return None;
        }
        let len = self.head().brief(what)?;
        for (i, word) in self.payload.iter().enumerate().take(len.div_ceil(8)) {
            // Relaxed: the state brought them.
            put(i, word.load(Ordering::Relaxed));
        }
        self.clear();
        Some(len)
    }

    /// How many bytes of the reply lie in the A-stack, as its peer says, if it is here, its outcome
    /// is `what` and they lie there. It is left as it is.
    #[inline(always)]
    pub(crate) fn stacked(&self, what: u16) -> Option<usize> {
        // SYNC as in `is_settled`. Relaxed, the rest: the state brought it.
        let answered = self.state.load(Ordering::Acquire) == ANSWERED;
        (answered && self.head().is_stacked(what))
            .then(|| self.payload[0].load(Ordering::Relaxed) as u32 as usize)
    }

    /// The reply has been taken.
    #[inline(always)]
    pub(crate) fn clear(&self) {
        self.state.store(IDLE, Ordering::Relaxed);
    }

    /// Of a reply that is here.
    #[inline(always)]
    fn head(&self) -> Head {
        // Relaxed: the state brought it.
        Head::again(self.head.load(Ordering::Relaxed))
    }

    /// The outcome that the reply says, if it is here and not yet taken.
    pub(crate) fn answered(&self) -> Option<u16> {
        // SYNC as in `is_settled`. Relaxed, the rest: the state brought it.
        let answered = self.state.load(Ordering::Acquire) == ANSWERED;
        answered.then(|| self.head().what())
    }

    /// The reply, once it is settled; nothing if it is lost.
    #[inline]
    pub(crate) fn take(&self) -> Option<Cell> {
        // SYNC as in `is_settled`.
        let answered = self.state.load(Ordering::Acquire) == ANSWERED;
        self.state.store(IDLE, Ordering::Relaxed);
        if !answered {
            return None;
        }
        let mut payload = Payload::new();
        for (i, word) in self.payload.iter().enumerate() {
            // Relaxed: the state brought them.
            payload.set_word(i, word.load(Ordering::Relaxed));
        }
        Some(Cell::came(self.head(), payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use underpass_channel::{Boxed, Receiving, Sending};

    /// What comes of it once it has passed through a ring.
    fn deliver(linkage: &Linkage, cell: &Cell) -> Delivered {
        let words = Arc::new(Boxed::new(32));
        let ring = Receiving::new(words.clone(), 0, 4);
        Sending::new(words, 0, 4).post(cell, 0);
        let coming = ring.coming().unwrap().unwrap();
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
        assert_eq!((linkage.watch(), linkage.unwatch()), (None, false), "there is no call");
        linkage.expect();
        assert_eq!((linkage.watch(), linkage.watch()), (Some(true), Some(false)));
        assert!(linkage.unwatch() && !linkage.unwatch());
        assert_eq!(linkage.watch(), Some(true));
        assert!(matches!(deliver(&linkage, &Cell::new(0, 0)), Delivered::Watched));
        assert!(linkage.is_settled() && !linkage.unwatch());
        assert_eq!(linkage.watch(), None);
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
