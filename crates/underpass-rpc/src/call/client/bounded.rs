//! Bounded calls: their callers say beforehand that they may stop waiting. And how any call is
//! given up.
//!
//! The slot's cancel word in the region holds the deadline, and one store there says that the
//! caller has given up. A server that can't know that by the deadline is told over the socket, too.
//! What is known of a call that was given up is proved in the channel's `README.md`, *Not started*.

use super::{CallTerms, ClientEnd, ClientRow};
use crate::call::abandon::{Freed, Frees, UnderWay};
use crate::call::answer::Answer;
use crate::call::linkage::Delivered;
use crate::control::timer;
use crate::dispatch::deadline::Inherited;
use crate::dispatch::incoming::Status;
use crate::dispatch::section_numbers::MadeBy;
use crate::error::{CallError, Outcome};
use std::sync::Arc;
use underpass_channel::Cell;
use underpass_channel::layout::SLOTS;
use underpass_os::{barrier, clock};
use underpass_seam::atomic::Ordering;
use underpass_sync::SpinGuard;
use underpass_threads::{Woken, calls_end, calls_may_end};

/// In ns: how long the client waits before it tells a server again whose socket is full.
const TELL_AGAIN: u64 = 100_000_000;
/// In ns: how long a server may hold more slots than it may, before the binding ends.
const CAPTURED_AFTER: u64 = 1_000_000_000;

/// A call's own deadline in ns, and what can free its caller or is to be told of it.
type Bounds = (Option<u64>, Option<UnderWay>);

impl CallTerms {
    /// Until when the call is wanted, in ns: by its own terms, and by those of the call on behalf
    /// of which it is made.
    pub(crate) fn deadline(&self) -> Result<Option<u64>, Box<CallError>> {
        self.earlier(&Inherited::of_caller(MadeBy::Thread))
    }

    /// Whether anything may bound a call that a thread is about to make: these terms, or the call
    /// on behalf of which it is made.
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
    /// What bounds a call that a thread is about to make. To be called if
    /// [`may_bound`](Terms::may_bound) is true.
    pub(super) fn bounds_of_thread(&self, terms: &CallTerms) -> Result<Bounds, Box<CallError>> {
        if !calls_may_end() {
            return self.bounds_by(terms, &Inherited::default());
        }
        if calls_end() {
            return Err(Box::new(CallError::Cancelled(Outcome::NotStarted)));
        }
        self.bounds_by(terms, &Inherited::of_caller(MadeBy::Thread))
    }

    /// What bounds a call that a task is about to make.
    pub(super) fn bounds_of_task(&self, terms: &CallTerms) -> Result<Bounds, Box<CallError>> {
        self.bounds_by(terms, &Inherited::of_caller(MadeBy::Task))
    }

    fn bounds_by(&self, terms: &CallTerms, inherited: &Inherited) -> Result<Bounds, Box<CallError>> {
        let deadline = terms.earlier(inherited)?;
        let own = self.own.upgrade().map(|own| own as Arc<dyn Frees>);
        let under_way = UnderWay::new(own, terms.abandon.as_ref(), inherited.freed_by(), inherited.numbers)?;
        Ok((deadline, under_way))
    }

    /// Stores the deadline of the call of `cell`, which is about to be posted, in the region, and
    /// the section numbers that it carries. Tells its `Abandon` which slot it has.
    #[inline(never)]
    pub(super) fn bound(&self, cell: &mut Cell, deadline_ns: Option<u64>, under_way: Option<&UnderWay>) {
        under_way.inspect(|call| call.has(cell.slot()));
        cell.bounded = true;
        let numbers = under_way.map(UnderWay::numbers).filter(|numbers| !numbers.is_empty());
        numbers.inspect(|numbers| numbers.write(&self.channel, cell.slot()));
        self.channel.cancel_word(cell.slot()).set_deadline(deadline_ns, numbers.is_some());
    }

    /// Gives up a call whose wait ended as `why`, and returns the error with what is known of the
    /// call. Returns nothing if its reply has come. The server takes a call without bounds without
    /// a check of its cancel word: only its handler can look there.
    #[cold]
    pub(super) fn give_up(
        &self,
        answer: &mut Answer<'_>,
        bounded: bool,
        under_way: Option<&UnderWay>,
        why: Woken,
    ) -> Option<Box<CallError>> {
        let (linkage, number, row) = (answer.linkage(), answer.number, answer.row);
        let freed = under_way.and_then(UnderWay::freed);
        // Its row was closed, which frees callers as well.
        let of_closed_row = freed.is_none() && why != Woken::Late && linkage.is_freed();
        let error = |outcome| match (freed, why) {
            _ if of_closed_row => row.reason(outcome),
            (Some(freed), _) => Box::new(freed(outcome)),
            (None, Woken::Cancelled) => Box::new(CallError::Cancelled(outcome)),
            (None, Woken::Late | Woken::Woken) => Box::new(CallError::Deadline(outcome)),
        };
        // G1: the slot is still this caller's, and so is its word.
        self.channel.cancel_word(number).cancel();
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
            self.channel.cancel_word(number).set_deadline(None, false);
            drop(inside);
            // It may be the server's answer to G1.
            let outcome = match linkage.answered().and_then(Status::from) {
                Some(Status::Unwanted) => Outcome::NotStarted,
                Some(Status::Cancelled) => Outcome::Unknown,
                _ => return None,
            };
            linkage.take();
            return Some(error(outcome));
        }
        self.quarantine(answer, inside);
        // At a deadline the server knows by itself.
        if freed.is_some() || why != Woken::Late {
            self.tell_unwanted(1 << number);
        }
        // The server takes an unbounded call without a check of its word.
        let outcome = if untaken && bounded { Outcome::NotStarted } else { Outcome::Unknown };
        Some(error(outcome))
    }

    /// Tells the server that nobody waits any more for the calls of these slots. Their words in the
    /// region say so already. If their handlers wait for calls in turn, those end too.
    #[cold]
    fn tell_unwanted(&self, slots: u64) {
        // Relaxed, here and below: the thread that takes a bit sends it.
        let slots = self.given_up.untold.swap(0, Ordering::Relaxed) | slots;
        self.kernel.entered(1);
        if self.mailbox.unwanted(slots) || self.is_closed() {
            return;
        }
        // The server does not read its socket. It is told later, if it goes on.
        self.given_up.untold.fetch_or(slots, Ordering::Relaxed);
        self.tell_again_soon();
    }

    /// Sets the timer that tells the server of what it was not told.
    #[cold]
    pub(super) fn tell_again_soon(&self) {
        // SYNC with the same swap below: if a thread leaves its bits to a timer, that timer's
        // function sees them. There is one timer at a time, however many callers give up.
        if !self.given_up.tells_again.swap(true, Ordering::AcqRel) {
            let own = self.own.clone();
            let again = move || own.upgrade().iter().for_each(|own| own.tell_again());
            timer::set(clock::now_ns() + TELL_AGAIN, again);
        }
    }

    #[cold]
    fn tell_again(&self) {
        self.given_up.tells_again.swap(false, Ordering::AcqRel);
        if self.given_up.untold.load(Ordering::Relaxed) != 0 {
            self.tell_unwanted(0);
        }
        self.tell_unwanted_late();
    }

    /// The server holds more slots than it may though nobody waits for their calls. If none of them
    /// comes back for a while, it has captured them. A server that was just told of many calls at
    /// once answers them meanwhile.
    #[cold]
    fn captured_unless_answered(&self) {
        // SYNC with the same swap below: one timer at a time.
        if self.given_up.watches_quarantine.swap(true, Ordering::AcqRel) {
            return;
        }
        // Relaxed, here and below: numbers.
        let (own, seen) = (self.own.clone(), self.given_up.came_back.load(Ordering::Relaxed));
        timer::set(clock::now_ns() + CAPTURED_AFTER, move || {
            let Some(own) = own.upgrade() else { return };
            own.given_up.watches_quarantine.swap(false, Ordering::AcqRel);
            let (rows, together) = own.captured();
            if rows.is_empty() && !together {
                return;
            }
            match own.given_up.came_back.load(Ordering::Relaxed) == seen {
                // The server may be alive, and take more of what was posted.
                true if together => own.end(CallError::Captured(Outcome::Unknown), false),
                true => rows.iter().for_each(|row| own.row_captured(row)),
                false => own.captured_unless_answered(),
            }
        });
    }

    /// The rows that have lost more slots to the server than it may hold: nobody waits for those
    /// calls any more. And whether it holds all slots, so that no call could begin.
    fn captured(&self) -> (Vec<Arc<ClientRow>>, bool) {
        let (alone, mut rows) = (self.shared.rows.is_one(), self.shared.rows.open());
        let _inside = self.lock();
        rows.retain(|row| self.quarantined_by(row.tag()) > row.quarantine(alone));
        (rows, !alone && self.given_up.quarantined.load(Ordering::Relaxed) == SLOTS)
    }

    /// Leaves the slot of an abandoned call to the server until that answers. If the server holds
    /// too many for long, that closes the row, or the connection. Leaves the lock.
    fn quarantine(&self, answer: &Answer<'_>, inside: SpinGuard<'_>) {
        answer.slot.set(None);
        let (quarantined, row) = (self.given_up.quarantined.load(Ordering::Relaxed) + 1, answer.row);
        self.given_up.quarantined.store(quarantined, Ordering::Relaxed);
        let most = row.quarantine(self.shared.rows.is_one());
        let too_many = quarantined > most && !row.is_closed() && self.quarantined_by(row.tag()) > most;
        drop(inside);
        // Closes files that came already. For files that come later see `forget_abandoned`.
        self.mailbox.forget(answer.number);
        if too_many && row.has_own_quarantine() {
            // The server may be alive, and take more of what was posted.
            self.row_captured(row);
        } else if too_many || (quarantined == SLOTS && !self.shared.rows.is_one()) {
            self.captured_unless_answered();
        }
    }

    /// The caller was freed because its row is closed. The server still answers the call, and its
    /// slot comes back then. Returns nothing if the reply has come.
    #[cold]
    pub(crate) fn leave_call(&self, answer: &Answer<'_>) -> Option<Box<CallError>> {
        let outcome = self.outcome_of(answer);
        let inside = self.lock();
        if !answer.linkage().abandon() {
            return None;
        }
        self.quarantine(answer, inside);
        Some(answer.row.reason(outcome))
    }

    /// A slot that was quarantined comes back. Under the lock.
    pub(super) fn back_from_quarantine(&self, number: u16) {
        let given_up = &self.given_up;
        given_up.quarantined.store(given_up.quarantined.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        given_up
            .came_back
            .store(given_up.came_back.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        // As in `give_up`.
        self.channel.cancel_word(number).set_deadline(None, false);
        self.slots.reclaim(number);
    }

    /// What is known of a call that will get no reply.
    #[cold]
    pub(crate) fn outcome_of(&self, answer: &Answer<'_>) -> Outcome {
        match answer.row.takes_no_more() && self.channel.is_untaken(answer.number) {
            true => Outcome::NotStarted,
            false => Outcome::Unknown,
        }
    }
}

impl Frees for ClientEnd {
    /// Another thread abandons a call over this channel, which has the slot `number`, or waits for
    /// one or for a late answer.
    #[cold]
    fn free(&self, number: Option<u16>) -> Vec<Freed> {
        let Some(number) = number else {
            let late = self.late.waiters();
            return self.queue.take_all().into_iter().chain(late).map(Freed::Waiter).collect();
        };
        let inside = self.lock();
        let freed = match self.linkage(number).free() {
            Delivered::Watched => self.waker_table.take(number).map(Freed::Task),
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
    use crate::dispatch::section_numbers::SectionNumbers;
    use std::os::fd::OwnedFd;
    use underpass_channel::layout::STACK;
    use underpass_channel::{Channel, Fence, Tag};
    use underpass_os::Socket;

    /// A client's end, and its peer's socket.
    fn end() -> (Arc<ClientEnd>, OwnedFd) {
        let (channel, _file) = Channel::create(Fence::Full, STACK).unwrap();
        let (ours, theirs) = Socket::pair().unwrap();
        let placement = CpuPlacement { may_overlap: false, may_share_cpu: false, same_cpu_only: false };
        let control = ControlSocket::new(BindingLink::new(Connection::new(ours)), None);
        (ClientEnd::new(channel, ChannelMailbox::of_client(control), placement), theirs)
    }

    #[test]
    fn abandoning_a_finished_call_frees_no_later_call_of_its_slot() {
        let ((end, _theirs), abandon) = (end(), Abandon::new());
        let lease = || end.slots.lease(SLOTS).expect("one is free");
        let under_way = UnderWay::new(
            Some(end.clone() as Arc<dyn Frees>),
            Some(&abandon),
            None,
            SectionNumbers::default(),
        )
        .unwrap()
        .expect("a choice");
        // However the first call ends, its caller still holds it.
        let row = end.add_row(Tag::new(0, 1));
        let first = Answer::new(&end, &row, lease(), Some(&under_way));
        let number = first.number;
        under_way.has(number);
        drop(first);
        let second = Answer::new(&end, &row, lease(), None);
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
        // Two weak holds are the end's own and its socket's, one is that of a timer. There may be
        // one more of a timer that fires just now.
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
