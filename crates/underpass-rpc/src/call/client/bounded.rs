//! Bounded calls: those whose caller says beforehand that it may cease to want them; and how any
//! call is given up.
//!
//! The slot's word in the region says until when, and one store there says that the caller has
//! given up. A server that can't know that by the deadline is told over the socket, too. What is
//! known of a call that was given up is proved in the channel's `README.md`, *Not started*.

use super::{ClientEnd, Terms};
use crate::call::abandon::{Freed, Frees, UnderWay};
use crate::call::answer::Answer;
use crate::call::linkage::Delivered;
use crate::control::timer;
use crate::dispatch::deadline::Inherited;
use crate::dispatch::incoming::Status;
use crate::error::{CallError, Outcome};
use std::sync::Arc;
use underpass_channel::Cell;
use underpass_os::{barrier, clock};
use underpass_seam::atomic::Ordering;
use underpass_threads::{Woken, calls_end, calls_may_end};

/// A server whose socket is full is told again after so many ns.
const TELL_AGAIN: u64 = 100_000_000;

/// A call's own deadline in ns, and that of what it is made for.
type Bounds = (Option<u64>, Option<UnderWay>);

impl Terms {
    /// Until when the call is wanted, in ns: by its own terms, and by those of the call that it is
    /// made for.
    pub(crate) fn deadline(&self) -> Result<Option<u64>, Box<CallError>> {
        self.earlier(&Inherited::of_caller())
    }

    /// Whether anything may bound a call that a thread is about to make: these, or what it is made
    /// for.
    #[inline(always)]
    pub(super) fn may_bound(&self) -> bool {
        self.within.is_some() | self.abandon.is_some() | calls_may_end()
    }

    fn earlier(&self, inherited: &Inherited) -> Result<Option<u64>, Box<CallError>> {
        if self.within.is_none() && inherited.deadline_ns.is_none() {
            return Ok(None);
        }
        let now = clock::now_ns();
        let own = self
            .within
            .map(|within| now.saturating_add(u64::try_from(within.as_nanos()).unwrap_or(u64::MAX)));
        if inherited.deadline_ns.is_some_and(|deadline| deadline <= now) {
            return Err(Box::new(CallError::Deadline(Outcome::NotStarted)));
        }
        Ok(own.into_iter().chain(inherited.deadline_ns).min())
    }
}

impl ClientEnd {
    /// What bounds a call that a thread is about to make, of which [`may_bound`](Terms::may_bound)
    /// is true.
    pub(super) fn bounds_of_thread(&self, terms: &Terms) -> Result<Bounds, Box<CallError>> {
        if !calls_may_end() {
            return self.bounds_by(terms, &Inherited::default());
        }
        if calls_end() {
            return Err(Box::new(CallError::Cancelled(Outcome::NotStarted)));
        }
        self.bounds_by(terms, &Inherited::of_caller())
    }

    /// What bounds a call that a task is about to make.
    pub(super) fn bounds_of_task(&self, terms: &Terms) -> Result<Bounds, Box<CallError>> {
        self.bounds_by(terms, &Inherited::of_caller())
    }

    fn bounds_by(&self, terms: &Terms, inherited: &Inherited) -> Result<Bounds, Box<CallError>> {
        let deadline = terms.earlier(inherited)?;
        let own = self.own.upgrade().map(|own| own as Arc<dyn Frees>);
        Ok((deadline, UnderWay::new(own, terms.abandon.as_ref(), inherited.freed_by())?))
    }

    /// Says in the region until when the call of `cell`, which is about to be posted, is wanted;
    /// and to who may abandon it where it is.
    #[inline(never)]
    pub(super) fn bound(&self, cell: &mut Cell, deadline_ns: Option<u64>, under_way: Option<&UnderWay>) {
        under_way.inspect(|call| call.has(cell.slot()));
        cell.bounded = true;
        self.channel.wanted(cell.slot()).until(deadline_ns);
    }

    /// Gives up a call whose wait ended as `why`, and says what is known of it; nothing if its
    /// reply has come. One without bounds is looked at by its handler, and by nobody before.
    #[cold]
    pub(super) fn give_up(
        &self,
        answer: &mut Answer<'_>,
        bounded: bool,
        under_way: Option<&UnderWay>,
        why: Woken,
    ) -> Option<Box<CallError>> {
        let (linkage, number) = (answer.linkage(), answer.number);
        let freed = under_way.and_then(UnderWay::freed);
        let error = freed.unwrap_or(match why {
            Woken::Cancelled => CallError::Cancelled,
            Woken::Late | Woken::Woken => CallError::Deadline,
        });
        // G1: the slot is this caller's still, so the word is.
        self.channel.wanted(number).no_more();
        // G2. Pairs with the fence of the server between T2 and T3.
        barrier::heavy();
        self.kernel.entered(1);
        // From here on the slot may be another's.
        under_way.inspect(|call| call.leaves());
        // G3.
        let untaken = self.channel.is_untaken(number);
        let inside = self.lock();
        if !linkage.abandon() {
            // The next call over the slot may be one that does not write it.
            self.channel.wanted(number).until(None);
            drop(inside);
            // It may be the server's answer to G1.
            let refused = linkage.answered() == Some(Status::Unwanted as u16);
            return refused.then(|| {
                linkage.take();
                Box::new(error(Outcome::NotStarted))
            });
        }
        // The slot is quarantined until the server answers.
        answer.slot.set(None);
        let quarantined = self.quarantined.load(Ordering::Relaxed) + 1;
        self.quarantined.store(quarantined, Ordering::Relaxed);
        drop(inside);
        // Files that came already; for what comes later see `parcels`.
        self.mailbox.forget(number);
        if quarantined > self.quarantine.load(Ordering::Relaxed) {
            // It may be alive, and take more of what was posted.
            self.end(CallError::Captured(Outcome::Unknown), false);
        }
        // At a deadline the server needs nobody to tell it.
        if freed.is_some() || why != Woken::Late {
            self.tell_unwanted(1 << number);
        }
        // Who takes an unbounded one does not look first.
        let outcome = if untaken && bounded { Outcome::NotStarted } else { Outcome::Unknown };
        Some(Box::new(error(outcome)))
    }

    /// Has the server hear that nobody waits any more for the calls of these slots, whose words say
    /// so: so calls end that their handlers wait for.
    #[cold]
    fn tell_unwanted(&self, slots: u64) {
        // Relaxed, here and below: each bit is sent by who takes it.
        let slots = self.untold.swap(0, Ordering::Relaxed) | slots;
        self.kernel.entered(1);
        if self.mailbox.unwanted(slots) || self.is_closed() {
            return;
        }
        // It does not take what it is told: it is told later, if it goes on.
        self.untold.fetch_or(slots, Ordering::Relaxed);
        // SYNC with the same swap below: whoever leaves that to a timer has its bits seen by that.
        // One at a time, however many give up.
        if !self.tells_again.swap(true, Ordering::AcqRel) {
            let own = self.own.clone();
            let again = move || own.upgrade().iter().for_each(|own| own.tell_again());
            timer::set(clock::now_ns() + TELL_AGAIN, again);
        }
    }

    #[cold]
    fn tell_again(&self) {
        self.tells_again.swap(false, Ordering::AcqRel);
        self.tell_unwanted(0);
    }

    /// A slot that was quarantined comes back. Under the lock.
    pub(super) fn back_from_quarantine(&self, number: u16) {
        self.quarantined.store(self.quarantined.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        // As in `give_up`.
        self.channel.wanted(number).until(None);
        self.slots.reclaim(number);
    }

    /// How many slots of each channel of the binding, of which this is the first end, the server
    /// may hold though nobody waits for their calls.
    pub(crate) fn set_quarantine(&self, most: u32) {
        // Relaxed: a number.
        self.quarantine.store(most, Ordering::Relaxed);
        self.further_ends().for_each(|end| end.quarantine.store(most, Ordering::Relaxed));
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

impl Frees for ClientEnd {
    /// Somebody abandons a call over this channel, which has the slot `number`, or waits for one.
    #[cold]
    fn free(&self, number: Option<u16>) -> Vec<Freed> {
        let Some(number) = number else {
            return self.queue.take_all().into_iter().map(Freed::Waiter).collect();
        };
        let inside = self.lock();
        let freed = match self.linkage(number).free() {
            Delivered::Watched => self.vigil.take(number).map(Freed::Task),
            Delivered::Taken(who) => who.map(Freed::Thread),
            _ => None,
        };
        drop(inside);
        freed.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding::handshake::CpuPlacement;
    use crate::call::abandon::Abandon;
    use crate::control::connection::{BindingLink, Connection};
    use crate::control::control_socket::ControlSocket;
    use crate::control::mailbox::ChannelMailbox;
    use crate::control::messages::{CONTROL, ControlMessage};
    use std::os::fd::OwnedFd;
    use underpass_channel::layout::{SLOTS, STACK};
    use underpass_channel::{Channel, Fence};
    use underpass_os::Socket;

    /// One, and its peer's socket.
    fn end() -> (Arc<ClientEnd>, OwnedFd) {
        let (channel, _file) = Channel::create(Fence::Full, STACK).unwrap();
        let (ours, theirs) = Socket::pair().unwrap();
        let placement = CpuPlacement { may_overlap: false, may_share_cpu: false, same_cpu_only: false };
        let control = ControlSocket::new(BindingLink::new(Connection::new(ours)), None);
        (ClientEnd::new(channel, ChannelMailbox::of_client(control), placement), theirs)
    }

    #[test]
    fn who_abandons_a_call_that_is_over_frees_no_other_over_its_slot() {
        let ((end, _theirs), abandon) = (end(), Abandon::new());
        let lease = || end.slots.lease(SLOTS).expect("one is free");
        let under_way = UnderWay::new(Some(end.clone() as Arc<dyn Frees>), Some(&abandon), None)
            .unwrap()
            .expect("a choice");
        // However the first ends, it is still in the caller's hands.
        let first = Answer::new(&end, lease(), Some(&under_way));
        let number = first.number;
        under_way.has(number);
        drop(first);
        let second = Answer::new(&end, lease(), None);
        assert_eq!(second.number, number, "the slot that was given back last");
        second.linkage().expect();
        abandon.abandon();
        assert!(under_way.is_freed() && !second.linkage().is_freed());
        second.linkage().clear();
    }

    #[test]
    fn a_server_that_takes_nothing_is_told_again_by_one_timer() {
        let (end, theirs) = end();
        while end.mailbox.unwanted(1 << 40) {}
        // Two weak holds are the end's own and its socket's, one is that of a timer; and there may
        // be one that rings just now.
        for slot in 0..32 {
            end.tell_unwanted(1 << slot);
            assert!(Arc::weak_count(&end) <= 4);
        }
        let theirs = Socket::adopt(theirs).unwrap();
        let all = (0..32).fold(0, |all, slot| all | 1 << slot);
        let mut heard = 0u64;
        for _ in 0..10_000_000 {
            let mut message = [0; CONTROL];
            if theirs.receive(&mut message).is_ok()
                && let Some((0, ControlMessage::Unwanted { slots })) = ControlMessage::read(&message)
            {
                heard |= slots;
            }
            if heard & all == all {
                return;
            }
            end.tell_again();
            std::thread::yield_now();
        }
        panic!("what was not told at once is forgotten: {heard:x}");
    }
}
