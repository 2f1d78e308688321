//! What idle activations ask of the client's end of a channel: to poll, to sleep, to donate.

use super::ClientEnd;
use underpass_channel::{Donee, Doorbell};
use underpass_os::{cpu, failpoint};
use underpass_processor::{
    ActiveLine, AwaitedLine, DonationLine, Line, PolledLine, SleepLine, patience, prompt_patience,
};
use underpass_seam::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A busy processor wakes the server again after twice as many polls each time. Doubling stops
/// after this many times: that is at most 8 s.
const MOST_TIMES: u32 = 11;

/// For how many polls in a row the peer has taken no call.
#[derive(Debug, Default)]
pub(super) struct Lag {
    /// How many calls it had taken, and the polls since.
    seen: AtomicU64,
}

impl Lag {
    /// Counts one more poll, at which the peer has taken `taken` calls. Returns whether `most`
    /// polls have passed since `taken` changed or since this last returned `true`.
    fn is_late(&self, taken: u32, most: u32) -> bool {
        // Relaxed, both: it decides how long to wait, and nothing else.
        let seen = self.seen.load(Ordering::Relaxed);
        let looks = if (seen >> 32) as u32 == taken { seen as u32 + 1 } else { 0 };
        let late = looks >= most;
        self.seen.store(u64::from(taken) << 32 | u64::from(if late { 0 } else { looks }), Ordering::Relaxed);
        late
    }
}

impl ClientEnd {
    /// Whether the server has not taken every call that was posted, as it says.
    pub(super) fn has_untaken(&self) -> bool {
        self.channel.taken().count() != self.channel.posted()
    }

    /// A processor of this domain is lent to the server.
    fn lends(&self) {
        if !self.server.lent.load(Ordering::Relaxed) {
            self.server.lent.store(true, Ordering::Relaxed);
        }
    }

    /// Notifies the server of what it is owed. The caller of this goes on running, so it lends no
    /// processor. `beside`: if the server has no other processor, its listener of this CPU is
    /// woken, and the kernel divides the CPU. Otherwise a processor of the server's own is woken.
    fn notify(&self, beside: bool) {
        self.server.owed.settle();
        self.server.lent.store(false, Ordering::Relaxed);
        self.server.notify_retries.again(self.channel.posted());
        let donee =
            (beside && self.placement.same_cpu_only).then(|| self.channel.donate(cpu::current())).flatten();
        match donee {
            Some(Donee::Asleep) => self.kernel.woke(),
            Some(Donee::StandsBy) => {}
            None => self.ring(self.channel.claim()),
        }
    }

    /// As [`AwaitedLine::notify_again`], for tasks, which lend no processor.
    pub(super) fn notify_again_for_tasks(&self) {
        self.notify(false);
        self.ring_socket_if_untaken();
    }

    /// If no processor of the server polls or sleeps, its clerk wakes one.
    fn ring_socket_if_untaken(&self) {
        if self.has_untaken() {
            self.ring(Doorbell::Socket);
        }
    }
}

impl PolledLine for ClientEnd {
    #[inline]
    fn poll(&self) -> bool {
        !self.is_left() && self.channel.receiving().pending() && self.take_what_came()
    }

    fn pending(&self) -> bool {
        false
    }

    fn serve(&self, _: u64) -> bool {
        false
    }

    #[inline(always)]
    fn stirs(&self) -> bool {
        self.channel.receiving().pending()
    }
}

impl SleepLine for ClientEnd {
    fn park(&self, others: bool) -> Option<u32> {
        self.channel_owner.rest();
        (self.slots.leased() > 0).then(|| self.channel.own_attention().park(others))
    }

    fn spare(&self) -> Option<u32> {
        self.channel_owner.rest();
        (self.slots.leased() > 0).then(|| self.channel.own_attention().spare())
    }

    fn quiet(&self) -> bool {
        self.is_closed() || self.lock.try_enter().is_some_and(|_inside| !self.channel.receiving().pending())
    }

    fn word(&self) -> &AtomicU32 {
        self.channel.own_attention().word()
    }

    fn look(&self) {
        self.channel_owner.resume();
        self.channel.own_attention().look();
        // A kernel thread that sleeps, or that announced its sleep in between, must not lose its
        // doorbell; nor must a task that waits.
        fence(Ordering::SeqCst);
        if self.line.sleepers.load(Ordering::SeqCst) > 0 || self.waker_table.has_tasks() {
            self.rearm();
        }
    }

    fn set_unpolled(&self) {
        self.line.unpolled.store(true, Ordering::Relaxed);
        self.channel.own_attention().set_unpolled();
    }
}

impl ActiveLine for ClientEnd {
    fn used(&self) -> bool {
        // Relaxed: under the lock of the lines.
        let position = self.channel.receiving().position();
        self.line.seen.swap(position, Ordering::Relaxed) != position
    }

    fn retire(&self) {
        // Relaxed: the barrier that follows when a line is made dormant orders it.
        self.line.dormant.store(true, Ordering::Relaxed);
    }

    fn rests(&self) -> bool {
        self.slots.leased() == 0
    }

    fn revive(&self) -> bool {
        if self.is_closed() {
            return false;
        }
        self.line.dormant.store(false, Ordering::Relaxed);
        // The next sweep shall find the line used.
        self.line.seen.store(self.channel.receiving().position().wrapping_sub(1), Ordering::Relaxed);
        true
    }
}

impl AwaitedLine for ClientEnd {
    fn enter(&self) {
        self.line.sleepers.fetch_add(1, Ordering::SeqCst);
        self.kernel.slept();
    }

    fn leave(&self, own: u32) {
        self.channel_owner.resume();
        self.line.sleepers.fetch_sub(1, Ordering::SeqCst);
        self.channel.own_attention().look();
        // Another waiter, which may sleep, must not lose its doorbell. It registered before it
        // slept.
        fence(Ordering::SeqCst);
        if self.line.sleepers.load(Ordering::SeqCst) > 0
            || self.waker_table.has_tasks()
            || self.slots.leased() > own
        {
            self.rearm();
        }
    }

    fn notify_again_after(&self, donated: bool) -> Option<u64> {
        let awaits = self.slots.leased() > 0;
        let times = || self.server.notify_retries.times(self.channel.posted());
        if !donated && awaits && self.has_untaken() {
            return Some(prompt_patience(times()));
        }
        // Relaxed, here and in `lends`: a thread that lends its processor checks this itself later.
        let lent = || self.placement.same_cpu_only || self.server.lent.load(Ordering::Relaxed);
        (donated || (awaits && lent())).then(|| patience(times()))
    }

    fn notify_again(&self) {
        DonationLine::call(self);
        self.ring_socket_if_untaken();
    }

    fn notify_again_if_late(&self) {
        if self.slots.leased() == 0 || !self.has_untaken() {
            return;
        }
        let times = self.server.notify_retries.times(self.channel.posted());
        if self.server.lag.is_late(self.channel.taken().count(), 1 << times.min(MOST_TIMES)) {
            AwaitedLine::notify_again(self);
        }
    }

    fn awaits(&self) -> bool {
        self.slots.leased() > 0
    }

    fn wake_spare(&self) {
        if self.slots.leased() > 0 && self.server.unnotified.take() && self.channel.wake_spare() {
            self.kernel.woke();
        }
    }
}

impl DonationLine for ClientEnd {
    #[inline]
    fn owed(&self) -> bool {
        self.server.owed.is_noted()
    }

    #[inline]
    fn overdue(&self) -> bool {
        self.server.owed.is_overdue()
    }

    fn donate(&self) -> bool {
        self.server.owed.settle();
        let donee = self.channel.donate(cpu::current());
        if let Some(donee) = donee {
            failpoint!("client-donated");
            self.lends();
            self.kernel.donated(donee == Donee::Asleep);
        }
        donee.is_some()
    }

    fn begin_to_give_way(&self) -> Option<usize> {
        self.server.owed.settle();
        let cpu = cpu::current();
        let Some(donee) = self.channel.give_way(cpu) else {
            // D5. To note it again would leave it to the next thread that polls. But all threads
            // that have polled in between may sleep (N1).
            DonationLine::call(self);
            return None;
        };
        failpoint!("client-donated");
        self.lends();
        self.kernel.gave_way(donee == Donee::Asleep);
        Some(cpu)
    }

    fn is_back(&self, cpu: usize) -> bool {
        self.channel.donation(cpu).is_none_or(|donation| donation.is_back())
    }

    fn gave_way(&self, times: u32) {
        self.kernel.entered(times.into());
    }

    fn call(&self) {
        self.notify(true);
    }
}

impl Line for ClientEnd {
    fn spun(&self, paid: bool) {
        self.kernel.spun(paid);
    }

    fn elsewhere(&self) -> bool {
        self.placement.may_overlap
    }

    fn shares(&self) -> bool {
        self.placement.may_share_cpu
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_late_after_looks_in_which_none_was_taken() {
        let lag = Lag::default();
        assert!(!lag.is_late(7, 2) && !lag.is_late(7, 2));
        assert!(lag.is_late(7, 2));
        assert!(!lag.is_late(7, 2), "it begins anew");
        assert!(!lag.is_late(8, 2) && !lag.is_late(8, 2), "one was taken");
        assert!(lag.is_late(8, 2));
    }
}
