//! What idle activations ask of the server's end of a channel: to serve, to sleep, to listen for
//! donations.

use super::{Served, ServerEnd, by};
use crate::dispatch::incoming::IncomingCall;
use crate::dispatch::rows_in_use;
use crate::payload::interfaces::WITH_INTERFACES;
use crate::payload::message::{Bytes, IN_REQUEST};
use crate::payload::prefix::WITH_PREFIX;
use std::any::Any;
use std::sync::Arc;
use underpass_channel::{Cell, Payload, Tag};
use underpass_os::failpoint;
use underpass_processor::{
    ActiveLine, AwaitedLine, CallProgress, DonationLine, Line, LineOwner, PolledLine, SleepLine,
};
use underpass_seam::atomic::{AtomicU32, Ordering};
use underpass_sync::SpinGuard;
use underpass_threads::short_of_e_stacks;

impl ServerEnd {
    /// Runs the next call, if one has come. Returns whether one had.
    #[inline(always)]
    fn serve_inside(&self, inside: SpinGuard<'_>, by: u64) -> bool {
        // Under the lock: see `close`.
        if !self.may_begin() {
            drop(inside);
            return self.does_not_begin();
        }
        let mut payload = Payload::new();
        let head = match self.channel.take(&mut payload) {
            Ok(Some(head)) => head,
            Ok(None) => {
                self.began_nothing(inside);
                return false;
            }
            Err(_) => return self.takes_nonsense(inside),
        };
        self.channel.taken().note(self.channel.receiving().position());
        failpoint!("server-taken");
        // Relaxed, both: under the lock.
        let is_free = |slot: &&Served| slot.by.load(Ordering::Relaxed) == by::NOBODY;
        let Some(slot) = self.slots.get(usize::from(head.slot())).filter(is_free) else {
            return self.takes_odd(inside, head, payload, by);
        };
        let tag = Tag::of_word(payload.word(0));
        slot.begins(by);
        self.one_more_under_way();
        let row = match rows_in_use::begin(&inside, &slot.row, &self.rows, tag, head.what()) {
            Ok(row) => row,
            Err(why) => {
                drop(inside);
                self.run_other(&Cell::from_parts(head, payload), slot, Err(why));
                return true;
            }
        };
        drop(inside);
        let mut call = if let Some(len) = head.inline_request()
            && let Some(bytes) = payload.0.get(IN_REQUEST..len)
        {
            IncomingCall::new(self, row, head.ids(), Bytes::Inline(bytes), bytes.len())
        } else if let Some(length) = head.stacked_request(&payload)
            && let Ok(source) = self.channel.stack_source(head.slot(), length)
        {
            IncomingCall::new(self, row, head.ids(), Bytes::Stack(source), length)
        } else {
            self.run_other(&Cell::from_parts(head, payload), slot, Ok(row));
            return true;
        };
        self.run(&mut call, slot);
        true
    }
}

impl PolledLine for ServerEnd {
    #[inline]
    fn poll(&self) -> bool {
        false
    }

    #[inline]
    fn pending(&self) -> bool {
        self.channel.receiving().pending() && self.takes_calls() && !short_of_e_stacks()
    }

    fn backlog(&self) -> bool {
        self.channel.receiving().backlog() && self.takes_calls() && !short_of_e_stacks()
    }

    fn taken(&self) -> u32 {
        self.channel.receiving().position()
    }

    fn call_progress(&self) -> CallProgress {
        let position = self.taken();
        // Relaxed: only the monitor uses it.
        let same = self.stalled.swap(position, Ordering::Relaxed) == position;
        match self.pending() {
            false => CallProgress::NoneWait,
            true if same => CallProgress::Stalled,
            true => CallProgress::Taken,
        }
    }

    fn serve(&self, by: u64) -> bool {
        if !self.channel.receiving().pending() {
            return false;
        }
        self.lock.try_enter().is_some_and(|inside| self.serve_inside(inside, by))
    }

    #[inline]
    fn stirs(&self) -> bool {
        self.channel.receiving().pending()
    }
}

impl SleepLine for ServerEnd {
    fn park(&self, others: bool) -> Option<u32> {
        Some(self.channel.own_attention().park(others))
    }

    fn spare(&self) -> Option<u32> {
        Some(self.channel.own_attention().spare())
    }

    fn quiet(&self) -> bool {
        // A worker that gives an E-stack back wakes the sleepers.
        short_of_e_stacks() || self.has_none()
    }

    fn word(&self) -> &AtomicU32 {
        self.channel.own_attention().word()
    }

    fn look(&self) {
        self.channel.own_attention().look();
    }

    fn set_unpolled(&self) {
        self.channel.own_attention().set_unpolled();
    }
}

impl ActiveLine for ServerEnd {
    fn used(&self) -> bool {
        // Relaxed: under the lock of the lines.
        let position = self.channel.receiving().position();
        self.seen.swap(position, Ordering::Relaxed) != position
    }

    fn retire(&self) {
        self.channel.own_attention().retire();
        self.unnotified.retire();
    }

    fn rests(&self) -> bool {
        if self.unnotified.take_left() {
            self.wake_spare_now();
        }
        self.has_none()
    }

    fn revive(&self) -> bool {
        if self.is_closed() {
            return false;
        }
        self.channel.own_attention().revive();
        self.unnotified.revive();
        // The next sweep shall find the line used.
        self.seen.store(self.channel.receiving().position().wrapping_sub(1), Ordering::Relaxed);
        true
    }
}

impl AwaitedLine for ServerEnd {
    fn wake_spare(&self) {
        // One of the client's processors may be busy with a thread, while another sleeps whose
        // threads wait for replies.
        if self.unnotified.take() {
            self.wake_spare_now();
        }
    }
}

impl DonationLine for ServerEnd {
    fn listen(&self, cpu: usize) -> Option<(&AtomicU32, u32)> {
        let donation = self.channel.donation(cpu).filter(|_| !self.is_closed())?;
        // Relaxed, here and below: the listener's own bit.
        let bit = 1 << cpu;
        let announced = self.listening.fetch_or(bit, Ordering::Relaxed) & bit != 0;
        Some((donation.word(), donation.listen(announced)))
    }

    fn ignore(&self, cpu: usize) -> bool {
        let Some(donation) = self.channel.donation(cpu) else { return true };
        let bit = 1 << cpu;
        let withdrawn = self.listening.load(Ordering::Relaxed) & bit == 0 || donation.withdraw();
        if withdrawn {
            self.listening.fetch_and(!bit, Ordering::Relaxed);
        }
        withdrawn
    }

    fn came(&self, cpu: usize) -> bool {
        let Some(donation) = self.channel.donation(cpu) else { return false };
        let bit = 1 << cpu;
        let came = self.listening.load(Ordering::Relaxed) & bit != 0 && donation.came();
        if came {
            self.listening.fetch_and(!bit, Ordering::Relaxed);
        }
        came
    }

    fn answered(&self) -> bool {
        self.is_closed() || (!self.channel.receiving().pending() && self.has_answered_all())
    }

    fn borrow(&self) {
        self.kernel.borrowed();
        // Relaxed, here and below: it concerns the listener itself.
        self.lent.fetch_add(1, Ordering::Relaxed);
    }

    fn hand_back(&self, cpu: usize, stays: bool) {
        self.lent.fetch_sub(1, Ordering::Relaxed);
        self.kernel.returned();
        let stays = stays && cpu < u64::BITS as usize;
        if stays {
            self.listening.fetch_or(1 << cpu, Ordering::Relaxed);
        }
        self.ring(self.channel.recall(cpu, stays));
        failpoint!("server-returned");
    }
}

impl Line for ServerEnd {
    fn owner(&self) -> Option<&LineOwner> {
        Some(&self.owner)
    }

    fn spun(&self, paid: bool) {
        self.kernel.spun(paid);
    }

    fn runs(&self, by: u64) -> Option<(&'static str, &'static str)> {
        let slot = &self.slots[usize::from(self.slot_of(by)?)].row;
        // The calling thread is `by`.
        let descriptor = rows_in_use::of_own_call(slot, &self.rows)?.binding.descriptor;
        let procedure =
            descriptor.procedures.get(usize::from(slot.procedure() & !(WITH_INTERFACES | WITH_PREFIX)))?;
        Some((descriptor.name, procedure.name))
    }

    fn itself(self: Arc<Self>) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(self)
    }

    fn elsewhere(&self) -> bool {
        self.placement.may_overlap
    }

    fn shares(&self) -> bool {
        self.placement.may_share_cpu
    }
}
