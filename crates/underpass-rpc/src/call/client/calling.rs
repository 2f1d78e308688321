//! A call, from the lease of its slot to the wait for its reply.

use super::late_answer::LateAnswer;
use super::{CallTerms, ClientEnd, ClientRow};
use crate::call::abandon::UnderWay;
use crate::call::answer::{Answer, Landing, Results};
use crate::call::leasing::Leasing;
use crate::call::slot_queue::SlotWish;
use crate::call::waiting::{AwaitedReply, Noted};
use crate::error::{CallError, Outcome};
use crate::payload::message::{IN_REQUEST, Unsent, fill, fill_inline};
use crate::payload::prefix::{AnyArguments, CallPrefix, Prefixed, WITH_PREFIX};
use std::sync::Arc;
use underpass_channel::{Cell, Ids, PayloadPlace, Slot};
use underpass_os::{clock, failpoint};
use underpass_processor::{DonationLine, Line, lines};
use underpass_seam::atomic::Ordering;
use underpass_sync::SpinGuard;
use underpass_threads::{Woken, alone, force, outside_section, wait_on, wake_all_idle};
use underpass_wire::{Decode, Encode};

/// A call that is under way.
pub(super) struct Sent {
    pub(super) slot: Slot,
    /// The caller's registration, if it is in its waiter slot already.
    noted: Option<Noted>,
}

/// The answer of a bounded call, or of a task's.
pub(super) enum Settled<'a> {
    /// In its slot.
    InSlot(Answer<'a>),
    /// Collected, after the call had given its slot back.
    Late(LateAnswer<'a>),
}

/// What came of a caller's turn in the queue for slots.
enum TurnInQueue {
    Leased(Slot),
    /// The binding is closed, or the caller is freed.
    Void,
}

impl ClientEnd {
    /// Calls a procedure of the binding `row` over the caller's channel, and waits for its result.
    /// If there is none, `failed` makes the error.
    #[inline(always)]
    pub(crate) fn call<A: Encode + ?Sized, R: Decode + Results<Value: Decode>>(
        &self,
        row: &ClientRow,
        procedure: u16,
        arguments: &A,
        terms: &CallTerms,
        failed: impl FnOnce(CallError) -> R::Error,
    ) -> Result<R::Value, R::Error> {
        let end = self.nearest();
        // Two separate branches, so that a call without bounds executes nothing of the other.
        if terms.may_bound() {
            let settled = end.exchange_bounded(row, procedure, arguments, terms);
            return end.result_of::<R>(settled, failed);
        }
        let Sent { slot, noted } = match end.begin(row, procedure, arguments, terms, None, None) {
            Ok(sent) => sent,
            Err(error) => return Err(failed(*error)),
        };
        // Constructed only after the post: stores before it would delay it (decision 0052).
        let (mut answer, mut landing) = (Answer::new(end, row, slot, None), Landing::new());
        match end.wait(&mut answer, Some(&landing), noted, terms, None, None) {
            Ok(()) => answer.result::<R>(&mut landing, failed),
            Err(error) => Err(failed(*error)),
        }
    }

    #[inline(never)]
    fn exchange_bounded<'a, A: Encode + ?Sized>(
        &'a self,
        row: &'a ClientRow,
        procedure: u16,
        arguments: &A,
        terms: &CallTerms,
    ) -> Result<Settled<'a>, Box<CallError>> {
        if procedure & WITH_PREFIX == 0
            && let Some(prefix) = CallPrefix::of_thread().filter(|_| self.shared.rows.takes_prefixes())
        {
            return AnyArguments::with(arguments, |arguments| {
                self.exchange_prefixed(row, procedure, arguments, &prefix, terms)
            });
        }
        let (deadline, under_way) = self.bounds_of_thread(terms)?;
        let under_way = under_way.as_ref();
        let Sent { slot, noted } = self.begin(row, procedure, arguments, terms, deadline, under_way)?;
        let mut answer = Answer::new(self, row, slot, under_way);
        // A call of a method of an exclusive service is a wait even if the reply comes at once.
        outside_section(|| self.wait(&mut answer, None, noted, terms, deadline, under_way))?;
        if answer.linkage().late_reply().is_some() {
            return self.late_answer_of_thread(row, &answer, deadline, under_way).map(Settled::Late);
        }
        // Nobody frees it from here on.
        Ok(Settled::InSlot(Answer::new(self, row, answer.into_slot(), None)))
    }

    /// The same, with something in front of the arguments.
    #[cold]
    #[inline(never)]
    fn exchange_prefixed<'a>(
        &'a self,
        row: &'a ClientRow,
        procedure: u16,
        arguments: &AnyArguments<'_>,
        prefix: &CallPrefix,
        terms: &CallTerms,
    ) -> Result<Settled<'a>, Box<CallError>> {
        self.exchange_bounded(row, procedure | WITH_PREFIX, &Prefixed { prefix, arguments }, terms)
    }

    /// As [`call`](Self::call), of a call that tells its server when it was posted.
    #[cold]
    #[inline(never)]
    pub(crate) fn call_telling_post<R: Decode + Results<Value: Decode>>(
        &self,
        row: &ClientRow,
        procedure: u16,
        arguments: &AnyArguments<'_>,
        terms: &CallTerms,
        failed: impl FnOnce(CallError) -> R::Error,
    ) -> Result<R::Value, R::Error> {
        let end = self.nearest();
        let settled = match self.shared.rows.takes_prefixes() {
            true => {
                let context = CallPrefix::of_thread().and_then(|prefix| prefix.context);
                let prefix = CallPrefix { context, posted_ns: Some(clock::now_ns()) };
                end.exchange_prefixed(row, procedure, arguments, &prefix, terms)
            }
            false => end.exchange_bounded(row, procedure, arguments, terms),
        };
        end.result_of::<R>(settled, failed)
    }

    /// The result of a call that was made with bounds, or by a task.
    #[inline(always)]
    pub(super) fn result_of<R: Decode + Results<Value: Decode>>(
        &self,
        settled: Result<Settled<'_>, Box<CallError>>,
        failed: impl FnOnce(CallError) -> R::Error,
    ) -> Result<R::Value, R::Error> {
        match settled {
            Ok(Settled::InSlot(mut answer)) => answer.result::<R>(&mut Landing::new(), failed),
            Ok(Settled::Late(late)) => self.read_late::<R>(&late).unwrap_or_else(|e| Err(failed(*e))),
            Err(error) => Err(failed(*error)),
        }
    }

    /// Sends a call.
    #[inline(always)]
    pub(super) fn begin<A: Encode + ?Sized>(
        &self,
        row: &ClientRow,
        procedure: u16,
        arguments: &A,
        terms: &CallTerms,
        deadline: Option<u64>,
        under_way: Option<&UnderWay>,
    ) -> Result<Sent, Box<CallError>> {
        if self.is_closed() {
            return Err(row.reason(Outcome::NotStarted));
        }
        let bounded = deadline.is_some() | under_way.is_some();
        let away = || self.server_is_away(terms.urgent);
        if !bounded && let Some(sent) = self.send_inline(row, procedure, arguments, terms, away) {
            return Ok(sent);
        }
        if row.is_closed() {
            return Err(row.reason(Outcome::NotStarted));
        }
        let slot = match self.try_lease(row, terms.leasing) {
            Some(slot) => slot,
            None => self.lease_later(row, terms.leasing, deadline, under_way)?,
        };
        let slot = self.send(row, slot, procedure, arguments, (deadline, under_way), away)?;
        Ok(Sent { slot, noted: None })
    }

    /// Waits for the answer to a call that was sent. The caller of a call without bounds may put
    /// the reply into `landing`.
    #[inline(always)]
    fn wait(
        &self,
        answer: &mut Answer<'_>,
        landing: Option<&Landing>,
        noted: Option<Noted>,
        terms: &CallTerms,
        deadline: Option<u64>,
        under_way: Option<&UnderWay>,
    ) -> Result<(), Box<CallError>> {
        let bounded = deadline.is_some() | under_way.is_some();
        let reply = AwaitedReply { answer, landing };
        if terms.urgent && self.owed() {
            force(&reply, self, deadline);
        }
        failpoint!("client-waiting");
        // After `expect`: the abandoning thread marks the call first, and then looks for callers
        // that expect a reply.
        let waits = under_way.is_none_or(|call| !call.is_freed());
        let ended = match noted {
            Some(noted) => reply.wait_noted(noted),
            None if waits => wait_on(&reply, Some(self), deadline),
            None => Woken::Cancelled,
        };
        let came = ended == Woken::Woken && (under_way.is_none() || !answer.linkage().is_freed());
        if !came && let Some(error) = self.give_up(answer, bounded, under_way, ended) {
            return Err(error);
        }
        Ok(())
    }

    /// Sends a call over a leased slot, and returns the slot to the owner of the answer.
    #[inline(always)]
    pub(super) fn send<A: Encode + ?Sized>(
        &self,
        row: &ClientRow,
        slot: Slot,
        procedure: u16,
        arguments: &A,
        (deadline, under_way): (Option<u64>, Option<&UnderWay>),
        server_is_away: impl FnOnce(),
    ) -> Result<Slot, Box<CallError>> {
        let number = slot.number();
        let answer = Answer::new(self, row, slot, under_way);
        failpoint!("client-leased");
        let linkage = self.linkage(number);
        let mut cell = Cell::request(number, procedure, row.tag());
        if deadline.is_some() | under_way.is_some() {
            self.bound(&mut cell, deadline, under_way);
        }
        if let Err(e) = fill::<IN_REQUEST, _>(&self.channel, &self.mailbox, &mut cell, arguments) {
            return Err(self.unsent(row, e));
        }
        failpoint!("client-filled");
        // Before the post, as it is the user's code.
        let size = A::FIXED.unwrap_or_else(|| arguments.size()) as u64;
        linkage.is_for(row.tag());
        linkage.expect();
        failpoint!("client-linked");
        let inside = self.lock();
        // What goes ahead of the call may be in the server's hands already. So the call is made
        // even if the row was closed meanwhile, and its caller is freed.
        let closed = row.is_closed();
        self.post(inside, &cell, server_is_away, || (), || row.count(self).out(size));
        if closed {
            let _inside = self.lock();
            let _nobody_waits = linkage.free();
        }
        if matches!(cell.place, PayloadPlace::OutOfBand | PayloadPlace::OverflowBuffer) {
            self.was_large();
        }
        Ok(answer.into_slot())
    }

    /// Sends a call whose bytes fit into the cell, as its type tells. Leases the slot and
    /// posts under one lock. Returns nothing if the bytes don't fit, the row is closed, or no slot
    /// is free.
    #[inline(always)]
    fn send_inline<A: Encode + ?Sized>(
        &self,
        row: &ClientRow,
        procedure: u16,
        arguments: &A,
        terms: &CallTerms,
        server_is_away: impl FnOnce(),
    ) -> Option<Sent> {
        let mut cell = Cell::request(0, procedure, row.tag());
        if !fill_inline(&mut cell, arguments) {
            return None;
        }
        failpoint!("client-filled");
        let inside = self.lock();
        let tag = row.open()?;
        let slot = self.slots.lease(terms.leasing.soon)?;
        let number = slot.number();
        failpoint!("client-leased");
        cell.ids = Ids::new(number, procedure);
        let linkage = self.linkage(number);
        linkage.is_for(tag);
        linkage.expect();
        failpoint!("client-linked");
        // A caller that forces a donation waits in another way.
        let at_ease = || if terms.urgent { None } else { linkage.waiter_slot.note() };
        let count = || row.count(self).out(u64::from(cell.length) - IN_REQUEST as u64);
        let noted = self.post(inside, &cell, server_is_away, at_ease, count).flatten();
        Some(Sent { slot, noted })
    }

    /// Posts a call whose linkage record is set, and leaves the lock. Before it leaves it calls
    /// `at_ease`, if there is nothing to do after the post but to wait, and `count`.
    #[inline(always)]
    pub(super) fn post<T>(
        &self,
        inside: SpinGuard<'_>,
        cell: &Cell,
        server_is_away: impl FnOnce(),
        at_ease: impl FnOnce() -> T,
        count: impl FnOnce(),
    ) -> Option<T> {
        // Once the end is closed, slots may come back whose requests were not taken: see
        // `lose_all`, which runs under the lock after the store.
        let others = if self.closed.load(Ordering::Relaxed) { u32::MAX } else { self.slots.leased() - 1 };
        let away = self.channel.post_and_look(cell, others);
        let alone = inside.is_biased();
        // After the post, so that either this load sees the close, or the close sees the call (see
        // `close_alone`). The same holds for a line that is made dormant.
        let settled = !(self.closed.load(Ordering::Relaxed) | self.line.dormant.load(Ordering::Relaxed));
        let eased = (!away & alone & settled).then(at_ease);
        // After the post, as stores before it would delay it.
        count();
        drop(inside);
        failpoint!("client-posted");
        if !away {
            self.server.unnotified.note();
        }
        if eased.is_none() {
            self.after_post(away.then_some(server_is_away), alone, settled);
        }
        eased
    }

    /// Whatever remains to be done after a post.
    #[cold]
    #[inline(never)]
    fn after_post(&self, away: Option<impl FnOnce()>, alone: bool, settled: bool) {
        if !alone {
            self.contended();
        }
        if let Some(server_is_away) = away {
            server_is_away();
        }
        if !settled {
            self.unsettled();
        }
    }

    #[cold]
    fn unsettled(&self) {
        if self.is_closed() {
            self.lose_all();
        } else if let Some(own) = self.own.upgrade()
            && lines::activate(&(own as Arc<dyn Line>))
        {
            wake_all_idle();
        }
    }

    #[inline(always)]
    pub(super) fn try_lease(&self, row: &ClientRow, leasing: Leasing) -> Option<Slot> {
        let _inside = self.lock();
        if !self.has_room(&leasing.wish(row.tag())) {
            return None;
        }
        let slot = self.slots.lease(leasing.most)?;
        self.linkage(slot.number()).is_for(row.tag());
        Some(slot)
    }

    /// All slots are leased: the caller waits in the queue, if its terms say so.
    #[cold]
    fn lease_later(
        &self,
        row: &ClientRow,
        leasing: Leasing,
        deadline: Option<u64>,
        under_way: Option<&UnderWay>,
    ) -> Result<Slot, Box<CallError>> {
        if !leasing.waits {
            return Err(Box::new(CallError::Overloaded));
        }
        let freed = || under_way.and_then(UnderWay::freed);
        let attempt = || match self.is_over(row) || freed().is_some() {
            true => Some(TurnInQueue::Void),
            false => self.try_lease(row, leasing).map(TurnInQueue::Leased),
        };
        let has_room = |wish: &SlotWish| {
            let _inside = self.lock();
            self.has_room(wish)
        };
        let wait = || self.queue.wait(deadline, self, leasing.wish(row.tag()), has_room, attempt);
        let slot = outside_section(wait);
        // This thread slept on the line without a call of its own: a doorbell that it took may have
        // been for another caller.
        if self.slots.leased() > 0 {
            self.rearm();
        }
        match slot {
            Ok(TurnInQueue::Leased(slot)) => Ok(slot),
            Ok(TurnInQueue::Void) => Err(match freed() {
                Some(error) => Box::new(error(Outcome::NotStarted)),
                None => row.reason(Outcome::NotStarted),
            }),
            Err(Woken::Cancelled) => Err(Box::new(CallError::Cancelled(Outcome::NotStarted))),
            Err(_) => Err(Box::new(CallError::Overloaded)),
        }
    }

    /// The server has no processor that polls. If this thread's processor has nothing else to do,
    /// or the call is urgent, it will be donated. Else the server is woken on a processor of its
    /// own, unless that would only take this one away.
    #[cold]
    fn server_is_away(&self, urgent: bool) {
        if urgent || self.placement.same_cpu_only || alone() {
            self.server.owed.note();
        } else {
            self.ring(self.channel.claim());
        }
    }

    /// The error of a call that was not posted.
    #[cold]
    fn unsent(&self, row: &ClientRow, e: Unsent) -> Box<CallError> {
        match e {
            Unsent::Inconsistent => {
                let what = "a type whose Encode::size disagrees with its encode";
                Box::new(CallError::Decode(Outcome::NotStarted, what.to_owned()))
            }
            Unsent::NoPeer => {
                // Perhaps the server has said that it closes, and the clerk has not read it yet.
                self.mailbox.read();
                row.reason(Outcome::NotStarted)
            }
            Unsent::NoResources(e) => Box::new(CallError::NoResources(Outcome::NotStarted, e.to_string())),
        }
    }
}
