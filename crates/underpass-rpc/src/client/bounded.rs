//! Bounded calls: those whose caller may cease to want them.
//!
//! The slot's word in the region says until when, and one store there says that the caller has given up. What is known of a call that was given up is
//! proved in the channel's `README.md`, *Not started*.

use super::{ClientEnd, Terms};
use crate::deadline::{inherited_ns, inherits};
use crate::error::{CallError, Outcome};
use crate::linkage::Linkage;
use underpass_channel::Cell;
use underpass_os::{barrier, clock};

impl Terms {
    /// Until when the call is wanted, in ns: by its own terms, and by those of the call that the calling thread is a handler of.
    #[inline(always)]
    pub(super) fn deadline(&self) -> Result<Option<u64>, Box<CallError>> {
        if self.within.is_none() && !inherits() {
            return Ok(None);
        }
        self.either_deadline()
    }

    #[inline(never)]
    fn either_deadline(&self) -> Result<Option<u64>, Box<CallError>> {
        let now = clock::now_ns();
        let own = self
            .within
            .map(|within| now.saturating_add(u64::try_from(within.as_nanos()).unwrap_or(u64::MAX)));
        let inherited = if inherits() { inherited_ns() } else { None };
        if inherited.is_some_and(|deadline| deadline <= now) {
            return Err(Box::new(CallError::Deadline(Outcome::NotStarted)));
        }
        Ok(own.into_iter().chain(inherited).min())
    }
}

impl ClientEnd {
    /// Says in the region until when the call of `cell`, which is about to be posted, is wanted.
    #[inline(never)]
    pub(super) fn bound(&self, cell: &mut Cell, deadline_ns: Option<u64>) {
        cell.bounded = true;
        self.channel.wanted(cell.slot).until(deadline_ns);
    }

    /// Gives up a bounded call, and says what is known of it; nothing if its reply has come.
    #[cold]
    pub(super) fn give_up(&self, linkage: &Linkage, number: u16) -> Option<Outcome> {
        // G1: the slot is this caller's still, so the word is.
        self.channel.wanted(number).no_more();
        // G2. Pairs with the fence of the server between T2 and T3.
        barrier::heavy();
        self.kernel.entered(1);
        // G3.
        let untaken = self.channel.is_untaken(number);
        let inside = self.lock();
        let abandoned = linkage.abandon();
        drop(inside);
        abandoned.then_some(if untaken { Outcome::NotStarted } else { Outcome::Unknown })
    }

    /// What became of the call of `number`, of which there will be no reply.
    #[cold]
    pub(crate) fn outcome_of(&self, number: u16) -> Outcome {
        match self.takes_no_more() && self.channel.is_untaken(number) {
            true => Outcome::NotStarted,
            false => Outcome::Unknown,
        }
    }
}
