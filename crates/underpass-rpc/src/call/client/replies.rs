//! Takes replies, delivers them to their callers, and makes sure that no sleeper misses one.

use super::ClientEnd;
use crate::call::answer::{Answer, Landing};
use crate::call::linkage::{Delivered, Linkage};
use crate::call::task_wakeup::wake_task;
use crate::call::waiting::{AwaitedReply, wake, wake_here};
use crate::dispatch::incoming::Status;
use crate::payload::message::{Bytes, IN_REPLY};
use std::task::Waker;
use underpass_channel::layout::SLOTS;
use underpass_channel::{Cell, Head, PayloadPlace, PeekedCell};
use underpass_os::{barrier, failpoint};
use underpass_seam::atomic::Ordering;
use underpass_sync::SpinGuard;
use underpass_threads::{Control, Opens, Wakes};

/// How many replies are taken under the lock at once.
const BATCH: u32 = 16;

/// Why a batch of replies ends, and the lock is left.
enum BatchEnd {
    /// There are no more replies.
    Over,
    /// There may be more.
    Full,
    /// The last reply was for a thread of another activation, or for a plain kernel thread.
    Elsewhere(&'static Control),
    /// The last reply was for a task, which has this waker.
    Task(Option<Waker>),
    /// Nobody wants the last reply, with this head, any more.
    Abandoned(Head),
    /// The last reply was for the call that collects late answers, over this slot.
    Collected(u16),
    /// No honest server writes this.
    Malformed(&'static str),
}

impl ClientEnd {
    /// Out-of-band messages have come for the slots that are bits of `slots`. If their calls were
    /// given up, their files are closed at once: it may take long until a thread polls for these
    /// replies.
    pub(super) fn forget_abandoned(&self, mut slots: u64) {
        while slots != 0 {
            let number = slots.trailing_zeros() as u16;
            slots &= slots - 1;
            self.mailbox.forget_if(number, || self.linkage(number).is_abandoned());
        }
    }

    /// Takes all replies that have come, even if another thread is about to stop taking.
    pub(super) fn poll_all(&self) {
        self.take_replies(|| Some(self.lock()));
    }

    /// Takes all replies that have come, unless another thread does. Out of line, so that a poll
    /// that finds nothing has little to set up.
    #[inline(never)]
    pub(super) fn take_what_came(&self) -> bool {
        self.take_replies(|| self.lock.try_enter())
    }

    /// Polls for the reply to a call of the calling thread, and takes any other reply that has
    /// come. Returns whether that reply has come.
    #[inline(always)]
    pub(crate) fn look_for(&self, reply: &AwaitedReply<'_>) -> bool {
        if self.is_left() || !self.channel.receiving().pending() {
            return false;
        }
        // If several calls are under way, the next reply may as well be for another caller.
        let landing = reply.landing.filter(|_| self.slots.leased() == 1);
        if let Some(landing) = landing
            && self.catch(reply.answer, landing)
        {
            return true;
        }
        self.take_what_came() && reply.is_open()
    }

    /// Takes the next reply, if it is the one to the call of the polling caller itself. Returns
    /// whether it was. If the reply is inline, its slot is given back too. For another caller the
    /// same takes a delivery, a wake-up and another lock.
    #[inline(always)]
    fn catch(&self, answer: &Answer<'_>, landing: &Landing) -> bool {
        let (receiving, linkage) = (self.channel.receiving(), answer.linkage());
        let Some(inside) = self.lock.try_enter() else { return false };
        let Ok(Some(coming)) = receiving.peek() else { return false };
        if coming.head.slot() != answer.number || !linkage.is_polled_for() {
            return false;
        }
        match coming.head.inline_len(Status::Done as u16) {
            Some(len) => {
                coming.words(|i, word| landing.put(i, word));
                landing.catch(len);
                answer.count.come_in(len as u64);
                linkage.clear();
                if let Some(slot) = answer.slot.take() {
                    self.slots.give_back(slot);
                }
            }
            None => deliver_out_of_line(linkage, coming),
        }
        receiving.consume(&coming);
        let more = receiving.pending_behind(&coming);
        drop(inside);
        failpoint!("client-delivered");
        if landing.is_caught() {
            failpoint!("client-given-back");
            self.slot_is_free();
        }
        if more {
            self.take_what_came();
        }
        true
    }

    /// Takes replies as long as there are any and `enter` gives the lock. Returns whether any came.
    #[inline]
    pub(super) fn take_replies<'a>(&'a self, enter: impl Fn() -> Option<SpinGuard<'a>>) -> bool {
        if self.is_closed() {
            return false;
        }
        let mut taken = 0;
        let receiving = self.channel.receiving();
        // An honest server has no more replies than there are slots.
        while taken < SLOTS {
            let Some(inside) = enter() else { break };
            let mut wakes = Wakes::begin();
            let most = taken + BATCH;
            let batch_end = loop {
                let coming = match receiving.peek() {
                    Ok(Some(coming)) => coming,
                    Ok(None) => break BatchEnd::Over,
                    Err(_) => break BatchEnd::Malformed("a reply that no honest server writes"),
                };
                let head = coming.head;
                let linkage = self.linkage.get(usize::from(head.slot()));
                let delivered = linkage.map(|linkage| linkage.deliver(&coming));
                receiving.consume(&coming);
                taken += 1;
                let Some(Delivered::Taken(who)) = delivered else { break self.odd(head, delivered) };
                if let Some(who) = who
                    && !wake_here(&mut wakes, who)
                {
                    break BatchEnd::Elsewhere(who);
                }
                if taken == most {
                    break BatchEnd::Full;
                }
            };
            drop(inside);
            drop(wakes);
            failpoint!("client-delivered");
            match batch_end {
                BatchEnd::Over => break,
                BatchEnd::Full => {}
                odd => {
                    if !self.goes_on(odd) {
                        break;
                    }
                }
            }
        }
        taken > 0
    }

    /// A reply for which no thread waits. Under the lock.
    #[cold]
    fn odd(&self, head: Head, delivered: Option<Delivered>) -> BatchEnd {
        match delivered {
            Some(Delivered::Watched) => BatchEnd::Task(self.waker_table.take(head.slot())),
            Some(Delivered::Abandoned) => BatchEnd::Abandoned(head),
            Some(Delivered::Collected) => BatchEnd::Collected(head.slot()),
            Some(Delivered::Taken(_) | Delivered::Unexpected) | None => {
                BatchEnd::Malformed("a reply to no call")
            }
        }
    }

    /// A batch has ended before its time; whether another follows.
    #[cold]
    fn goes_on(&self, batch_end: BatchEnd) -> bool {
        match batch_end {
            BatchEnd::Elsewhere(who) => wake(who),
            BatchEnd::Task(waker) => waker.into_iter().for_each(wake_task),
            BatchEnd::Abandoned(head) => self.reclaim(&Cell::of(head)),
            BatchEnd::Collected(slot) => self.collected(slot),
            BatchEnd::Malformed(what) => {
                self.violated(what);
                return false;
            }
            BatchEnd::Over | BatchEnd::Full => {}
        }
        true
    }

    /// The reply to a call that was given up has come.
    #[cold]
    fn reclaim(&self, cell: &Cell) {
        if let Some(reply) = self.linkage(cell.slot()).take_abandoned_interfaces() {
            self.release_interfaces_of(&reply);
        } else if cell.place == PayloadPlace::OutOfBand {
            self.mailbox.discard(cell.slot());
        }
        if cell.what() == Status::Late as u16 && !self.abandoned_call_is_late(cell.slot()) {
            self.violated("a late call without a number of its own");
            return;
        }
        let inside = self.lock();
        self.back_from_quarantine(cell.slot());
        drop(inside);
        self.slot_is_free();
    }

    /// Nobody takes this reply: releases the interfaces that came along.
    #[cold]
    pub(crate) fn release_interfaces_of(&self, reply: &Cell) {
        if let Ok(mut bytes) = Bytes::of::<IN_REPLY>(&self.channel, &self.mailbox, reply) {
            let _ = bytes.take_interfaces(&self.mailbox, true);
            self.count_entries(self.mailbox.entries());
        }
    }

    /// Announces a sleep on behalf of the threads that sleep already, because a doorbell for them
    /// may have gone to another.
    pub(super) fn rearm(&self) {
        if self.line.unpolled.load(Ordering::Relaxed) || self.waker_table.has_tasks() {
            self.channel.own_attention().set_unpolled();
        }
        self.channel.own_attention().park(false);
        barrier::heavy();
        self.kernel.entered(1);
        self.poll_all();
    }
}

/// Out of line, and with a copy, so that an inline reply is never stored whole.
#[inline(never)]
fn deliver_out_of_line(linkage: &Linkage, coming: PeekedCell<'_>) {
    // The caller is not in its waiter slot.
    let _ = linkage.deliver(&coming);
}
