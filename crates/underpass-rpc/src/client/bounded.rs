//! Bounded calls: those whose caller may cease to want them.
//!
//! The slot's word in the region says until when, and one store there says that the caller has given up. What is known of a call that was given up is
//! proved in the channel's `README.md`, *Not started*.

use super::{ClientEnd, Terms};
use crate::abandon::UnderWay;
use crate::deadline::{inherited_ns, inherits};
use crate::error::{CallError, Outcome};
use crate::linkage::{Delivered, Linkage};
use crate::summons::wake_task;
use crate::waiting::wake;
use underpass_channel::Cell;
use underpass_os::{barrier, clock};
use underpass_seam::atomic::Ordering;

impl Terms<'_> {
    /// Until when the call is wanted, in ns: by its own terms, and by those of the call that the calling thread is a handler of.
    #[inline(always)]
    pub(crate) fn deadline(&self) -> Result<Option<u64>, Box<CallError>> {
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
    /// Says in the region until when the call of `cell`, which is about to be posted, is wanted; and to who may abandon it where it is.
    #[inline(never)]
    pub(super) fn bound(&self, cell: &mut Cell, deadline_ns: Option<u64>, under_way: Option<&UnderWay<'_>>) {
        under_way.inspect(|call| call.has(cell.slot));
        cell.bounded = true;
        self.channel.wanted(cell.slot).until(deadline_ns);
    }

    /// Gives up a bounded call, and says what is known of it; nothing if its reply has come.
    #[cold]
    pub(super) fn give_up(
        &self,
        linkage: &Linkage,
        number: u16,
        under_way: Option<&UnderWay<'_>>,
    ) -> Option<Box<CallError>> {
        // G1: the slot is this caller's still, so the word is.
        self.channel.wanted(number).no_more();
        // G2. Pairs with the fence of the server between T2 and T3.
        barrier::heavy();
        self.kernel.entered(1);
        // G3.
        let untaken = self.channel.is_untaken(number);
        let inside = self.lock();
        if !linkage.abandon() {
            return None;
        }
        let quarantined = self.quarantined.load(Ordering::Relaxed) + 1;
        self.quarantined.store(quarantined, Ordering::Relaxed);
        drop(inside);
        // Files that came already; for what comes later see `parcels`.
        drop(self.mailbox.forget(number));
        if quarantined > self.quarantine.load(Ordering::Relaxed) {
            // It may be alive, and take more of what was posted.
            self.end(CallError::Captured(Outcome::Unknown), false);
        }
        let outcome = if untaken { Outcome::NotStarted } else { Outcome::Unknown };
        Some(Box::new(match under_way.is_some_and(UnderWay::is_abandoned) {
            true => CallError::Abandoned(outcome),
            false => CallError::Deadline(outcome),
        }))
    }

    /// A slot that was quarantined comes back. Under the lock.
    pub(super) fn back_from_quarantine(&self, number: u16) {
        self.quarantined.store(self.quarantined.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        self.slots.reclaim(number);
    }

    /// How many slots of each channel of the binding, of which this is the first end, the server may hold though nobody waits for their calls.
    pub(crate) fn set_quarantine(&self, most: u32) {
        // Relaxed: a number.
        self.quarantine.store(most, Ordering::Relaxed);
        self.further_ends().for_each(|end| end.quarantine.store(most, Ordering::Relaxed));
    }

    /// Somebody abandons a call over this channel, which has the slot `number`, or waits for one.
    #[cold]
    pub(crate) fn free(&self, number: Option<u16>) {
        let Some(number) = number else { return self.queue.all() };
        let inside = self.lock();
        let freed = self.linkage(number).free();
        let task = matches!(freed, Delivered::Watched).then(|| self.vigil.take(number)).flatten();
        drop(inside);
        if let Some(waker) = task {
            wake_task(waker);
        }
        if let Delivered::Taken(Some(who)) = freed {
            wake(who);
        }
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
