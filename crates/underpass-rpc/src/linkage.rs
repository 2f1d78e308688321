//! Who waits for which call: private to the client, so that a server can't make anything of it.

use crate::counters::SlotCount;
use underpass_channel::{Cell, INLINE, Place};
use underpass_seam::atomic::{AtomicU32, AtomicU64, Ordering};
use underpass_threads::Latch;

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

/// One slot's linkage record (LRPC).
///
/// | field | who writes it, and when |
/// |---|---|
/// | `state` | the caller `EXPECTED` before it posts and `IDLE` at the end; all else under the ring's lock |
/// | `head`, `payload` | who delivers, under the ring's lock, before `ANSWERED` |
/// | `latch` | shut by the caller before it posts, opened by who delivers or loses |
/// | `count` | the caller |
#[derive(Debug, Default)]
pub(crate) struct Linkage {
    state: AtomicU32,
    pub(crate) latch: Latch,
    head: AtomicU64,
    payload: [AtomicU64; INLINE / 8],
    pub(crate) count: SlotCount,
}

/// What a delivery met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivered {
    /// Somebody who waits.
    Taken,
    /// Nobody any more: the slot, and the blob that came along if one did, is to be given back.
    Abandoned,
    /// No call under way: no honest peer replies so.
    Unexpected,
}

impl Linkage {
    /// The caller is about to post.
    #[inline]
    pub(crate) fn expect(&self) {
        self.latch.shut();
        // Relaxed: the post publishes it to the server, whose reply brings it to who delivers.
        self.state.store(EXPECTED, Ordering::Relaxed);
    }

    /// A reply has come. Under the ring's lock.
    #[inline]
    pub(crate) fn deliver(&self, cell: &Cell) -> Delivered {
        match self.state.load(Ordering::Relaxed) {
            EXPECTED => {}
            ABANDONED => {
                self.state.store(IDLE, Ordering::Relaxed);
                return Delivered::Abandoned;
            }
            _ => return Delivered::Unexpected,
        }
        let place = match cell.place {
            Place::Inline => 0,
            Place::Stack => 1,
            Place::Blob => 2,
        };
        // Relaxed, all: the latch publishes them to the caller.
        self.head.store(u64::from(cell.what) | place << 16 | u64::from(cell.length) << 32, Ordering::Relaxed);
        let words = if cell.place == Place::Inline { (cell.length as usize).div_ceil(8) } else { 0 };
        for (to, word) in self.payload.iter().zip(cell.payload).take(words) {
            to.store(word, Ordering::Relaxed);
        }
        self.state.store(ANSWERED, Ordering::Relaxed);
        self.latch.open();
        Delivered::Taken
    }

    /// There will be no reply. Under the ring's lock. Says whether the slot is to be given back.
    pub(crate) fn lose(&self) -> bool {
        match self.state.load(Ordering::Relaxed) {
            EXPECTED => {
                self.state.store(LOST, Ordering::Relaxed);
                self.latch.open();
                false
            }
            ABANDONED => {
                self.state.store(IDLE, Ordering::Relaxed);
                true
            }
            _ => false,
        }
    }

    /// Nobody wants the reply any more. Under the ring's lock. `false` if it is here.
    pub(crate) fn abandon(&self) -> bool {
        let expected = self.state.load(Ordering::Relaxed) == EXPECTED;
        if expected {
            self.state.store(ABANDONED, Ordering::Relaxed);
        }
        expected
    }

    /// The reply, after the latch has opened; nothing if it is lost.
    #[inline]
    pub(crate) fn take(&self, slot: u16) -> Option<Cell> {
        // Relaxed, all: the latch's opening brought them.
        let answered = self.state.load(Ordering::Relaxed) == ANSWERED;
        self.state.store(IDLE, Ordering::Relaxed);
        if !answered {
            return None;
        }
        let head = self.head.load(Ordering::Relaxed);
        let mut cell = Cell::new(slot, head as u16);
        cell.length = (head >> 32) as u32;
        cell.place = match (head >> 16) & 0xffff {
            0 => Place::Inline,
            1 => Place::Stack,
            _ => Place::Blob,
        };
        let words = if cell.place == Place::Inline { (cell.length as usize).div_ceil(8) } else { 0 };
        for (word, from) in cell.payload.iter_mut().zip(&self.payload).take(words) {
            *word = from.load(Ordering::Relaxed);
        }
        Some(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_taken_once() {
        let linkage = Linkage::default();
        let cell = Cell::inline(3, 9, b"0123456789").unwrap();
        assert_eq!(linkage.deliver(&cell), Delivered::Unexpected);
        linkage.expect();
        assert!(!linkage.latch.is_open());
        assert_eq!(linkage.deliver(&cell), Delivered::Taken);
        assert_eq!(linkage.deliver(&cell), Delivered::Unexpected);
        assert!(linkage.latch.is_open());
        assert_eq!(linkage.take(3), Some(cell));
        assert_eq!(linkage.take(3), None);
    }

    #[test]
    fn a_lost_call_has_no_reply() {
        let linkage = Linkage::default();
        linkage.expect();
        assert!(!linkage.lose());
        assert!(linkage.latch.is_open());
        assert_eq!(linkage.take(0), None);
    }

    #[test]
    fn an_abandoned_slot_comes_back_with_its_reply() {
        let linkage = Linkage::default();
        linkage.expect();
        assert!(linkage.abandon());
        assert!(!linkage.abandon());
        assert_eq!(linkage.deliver(&Cell::new(0, 0)), Delivered::Abandoned);
        assert_eq!(linkage.deliver(&Cell::new(0, 0)), Delivered::Unexpected);
    }
}
