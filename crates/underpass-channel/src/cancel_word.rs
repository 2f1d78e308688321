//! What the two sides of a call tell one another beside its messages: how many requests were taken,
//! and whether a call is wanted still.
//!
//! Neither word is more than its writer's word. The proof that both together tell whether a call
//! was started is in `README.md`, *Not started*.

use crate::attention::Fence;
use underpass_seam::atomic::{AtomicU64, Ordering, fence};

/// No more: no clock goes so far.
const CANCELLED: u64 = u64::MAX;

/// How many requests the server has taken, modulo 2³². Written by the server, under the lock of its
/// end; read by the client when the binding, or a call, ends.
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

    /// *Take, T2:* so many have been taken. Before anything is done for the last of them.
    #[inline(always)]
    pub fn note(&self, count: u32) {
        // Relaxed, and a fence that orders the compiler alone on the processors that we know: what
        // the procedure does comes after it.
        self.word.store(count.into(), Ordering::Relaxed);
        fence(Ordering::Release);
    }

    /// How many the server says.
    pub fn count(&self) -> u32 {
        // SYNC with the fence in `note`: what a started procedure did is seen only with its count.
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

/// How long the client of a bounded call wants it: for ever, until a time of its monotonic clock in
/// ns, or no more. Written by the client, while the slot is leased; read by the server when it
/// takes the call, and by the call's handler.
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

    /// Before the post: until when.
    #[inline]
    pub fn set_deadline(&self, deadline_ns: Option<u64>) {
        // Relaxed: the post publishes it.
        self.word
            .store(deadline_ns.map_or(0, |deadline| deadline.clamp(1, CANCELLED - 1)), Ordering::Relaxed);
    }

    /// *Give up, G1:* no more.
    pub fn cancel(&self) {
        // SYNC with the fence of a server's view of an earlier call of the slot: whose end had been
        // seen here. The barrier that follows orders the rest.
        self.word.store(CANCELLED, Ordering::Release);
    }

    /// Until when, if there is an end; nothing if it is wanted no more.
    #[inline]
    pub fn read(&self) -> Wanted {
        // Relaxed: the post brought what was written before it, and what comes later is heard
        // sooner or later.
        match self.word.load(Ordering::Relaxed) {
            CANCELLED => Wanted::NoMore,
            0 => Wanted::Forever,
            deadline_ns => Wanted::Until(deadline_ns),
        }
    }

    /// *Take, T3:* as [`ask`](Self::ask), after the call was noted as taken: where the client has
    /// found it untaken, this finds it wanted no more.
    #[inline]
    pub fn read_after_take(&self, with: Fence) -> Wanted {
        // Pairs with the barrier of the client, G2, between its `no_more` and its look at the
        // count.
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
