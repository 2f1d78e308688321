//! Two words beside the messages. By one the server tells how many requests it has taken. By the
//! other a client tells until when it wants a call, and that it has given the call up.
//!
//! What the peer wrote in either word is untrusted. The proof that both words together tell whether
//! a call was started is in `README.md`, *Not started*.

use crate::attention::Fence;
use underpass_seam::atomic::{AtomicU64, Ordering, fence};

/// The call was given up. No deadline has this value.
const CANCELLED: u64 = u64::MAX;

/// How many requests the server has taken, modulo 2³². The server writes it under the lock of its
/// end. The client reads it at the end of a binding or of a call.
#[derive(Debug)]
pub struct TakenCount<'a> {
    word: &'a AtomicU64,
}

impl<'a> TakenCount<'a> {
    /// The count at `word`.
    #[inline]
    pub fn new(word: &'a AtomicU64) -> Self {
        Self { word }
    }

    /// *Take, T2:* `count` requests have been taken. Call it before anything is done for the last
    /// of them.
    #[inline(always)]
    pub fn note(&self, count: u32) {
        // Relaxed, then a fence: what the procedure does comes after the store. On x86-64 the fence
        // orders the compiler only.
        self.word.store(count.into(), Ordering::Relaxed);
        fence(Ordering::Release);
    }

    /// The count, as the server says.
    pub fn count(&self) -> u32 {
        // SYNC with the fence in `note`: if this side sees what a started procedure did, it sees
        // the count as well.
        self.word.load(Ordering::Acquire) as u32
    }
}

/// Until when the client of a bounded call wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// For ever.
    Forever,
    /// Until this time of the client's monotonic clock, in ns.
    Until(u64),
    /// The client has given the call up.
    NoMore,
}

impl Wanted {
    /// Whether the client has given the call up.
    #[inline]
    pub fn is_cancelled(self) -> bool {
        self == Self::NoMore
    }
}

/// The word in which the client says until when it wants the call of a slot. The client writes it
/// while the slot is leased. The server reads it when it takes the call, and the call's handler
/// whenever it asks.
#[derive(Debug)]
pub struct CancelWord<'a> {
    word: &'a AtomicU64,
}

impl<'a> CancelWord<'a> {
    /// The slot's word at `word`.
    #[inline]
    pub fn new(word: &'a AtomicU64) -> Self {
        Self { word }
    }

    /// Before the post: until when the client wants the call.
    #[inline]
    pub fn set_deadline(&self, deadline_ns: Option<u64>) {
        // Relaxed: the post publishes it.
        self.word
            .store(deadline_ns.map_or(0, |deadline| deadline.clamp(1, CANCELLED - 1)), Ordering::Relaxed);
    }

    /// *Give up, G1:* the client doesn't want the call any more.
    pub fn cancel(&self) {
        // SYNC with the fence of the server's view of an earlier call of the slot: this side had
        // seen that call's end. The barrier that follows orders the rest.
        self.word.store(CANCELLED, Ordering::Release);
    }

    /// Until when the client wants the call.
    #[inline]
    pub fn read(&self) -> Wanted {
        // Relaxed: the post published what was written before it. The handler sees later changes
        // some time after they were made.
        match self.word.load(Ordering::Relaxed) {
            CANCELLED => Wanted::NoMore,
            0 => Wanted::Forever,
            deadline_ns => Wanted::Until(deadline_ns),
        }
    }

    /// *Take, T3:* as [`read`](Self::read), after the call was counted as taken. If the client has
    /// found a cancelled call untaken, this returns [`Wanted::NoMore`].
    #[inline]
    pub fn read_after_take(&self, with: Fence) -> Wanted {
        // Pairs with the client's barrier G2, between `cancel` and its read of the count.
        with.pass();
        self.read()
    }
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_wanted_for_ever_or_until_a_time_or_no_more() {
        let word = AtomicU64::new(7);
        let cancel_word = CancelWord::new(&word);
        for (deadline_ns, read) in [
            (None, Wanted::Forever),
            (Some(5), Wanted::Until(5)),
            (Some(0), Wanted::Until(1)),
            (Some(u64::MAX), Wanted::Until(u64::MAX - 1)),
        ] {
            cancel_word.set_deadline(deadline_ns);
            assert_eq!(cancel_word.read(), read);
        }
        cancel_word.cancel();
        assert!(cancel_word.read().is_cancelled());
        assert!(cancel_word.read_after_take(Fence::Full).is_cancelled());
    }
}
