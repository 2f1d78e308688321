//! How long an idle processor polls before it sleeps.
//!
//! Who polls for as long as a wake-up costs, and then sleeps, never pays more than twice what one
//! would pay who knew when the next message comes. So that is the rule, until the gaps before it
//! show which half of the price is wasted: where they are much longer, nothing is polled for beyond
//! a batch of looks; where they are shorter, or a little longer than the rule would wait, it polls
//! for twice as long.

use crate::idle::contention::CONTENTION;
use crate::idle::cpu_sharing::CpuSharing;
use crate::metrics;
use crate::park::wake_up_cost::wake_up_cost;
use std::cell::Cell;
use underpass_os::clock::now_ns;
use underpass_os::cpu;

/// What an idle processor has learnt of its waits: whether what it waits for comes soon, and
/// whether it does so on another CPU. One kernel thread's.
#[derive(Debug)]
pub struct AdaptiveSpin {
    credit: Cell<u8>,
    sharing: CpuSharing,
}

/// No more than a batch of polls below this.
const SOME: u8 = 1;
/// Twice as long from here on.
const MUCH: u8 = 7;
const MOST: u8 = 8;

impl Default for AdaptiveSpin {
    fn default() -> Self {
        Self::new()
    }
}

impl AdaptiveSpin {
    /// One that follows the rule.
    pub const fn new() -> Self {
        Self { credit: Cell::new(4), sharing: CpuSharing::new(false) }
    }

    /// The same, of an activation: it leaves a CPU that its peer doesn't. Not both of them are to,
    /// and a plain kernel thread is its user's.
    pub const fn of_leader() -> Self {
        Self { sharing: CpuSharing::new(true), ..Self::new() }
    }

    /// How long to poll, in ns.
    fn length(&self) -> u64 {
        match self.credit.get() {
            ..SOME => 0,
            SOME..MUCH => wake_up_cost(),
            MUCH.. => 2 * wake_up_cost(),
        }
    }

    fn came(&self, soon: bool) {
        let credit = self.credit.get();
        self.credit.set(if soon { MOST.min(credit + 1) } else { credit.saturating_sub(1) });
    }

    /// What was waited for came after so long, in ns, from the first poll to the end of the sleep
    /// that followed.
    ///
    /// Of that, one wake-up is the sleeper's own, and one may be its peer's, who slept as well: if
    /// both took these for a reason to sleep, they would for ever. Without the peer's it is no
    /// longer than the longest spin, which would have found it.
    pub fn slept(&self, ns: u64) {
        self.came(ns < 3 * wake_up_cost());
    }
}

/// Looks between two looks at the clock.
const BATCH: u32 = 128;

/// So many before the first look at the clock, where the peer came last when this processor gave
/// way.
const FEW: u32 = 32;

/// The look at the clock at which an idle processor first gives way to others that are ready on its
/// CPU; it does so again after twice as many, and so on. Where its peer came last when it did so,
/// and elsewhere.
const PATIENCE: (u32, u32) = (1, 8);

/// One idle spell.
#[derive(Debug)]
pub struct Spin<'a> {
    adaptive: &'a AdaptiveSpin,
    polls: u32,
    /// Since when, once a batch was in vain.
    begun: Option<u64>,
    looks: u32,
    /// Somebody else ran when it gave way.
    gave_way: bool,
    over: bool,
}

impl Drop for Spin<'_> {
    #[inline]
    fn drop(&mut self) {
        self.reset();
    }
}

impl<'a> Spin<'a> {
    /// Looks between two looks at the clock.
    pub const BATCH: u32 = BATCH;

    /// Looks in a row, of which each sees no more than whether there may be something to poll for.
    pub const ROW: u32 = 16;

    /// [`ROW`](Self::ROW), for a loop that is to stay one in the machine's code: which of its looks
    /// finds something is guessed best so (decision 0050).
    #[inline(always)]
    pub fn row() -> u32 {
        std::hint::black_box(Self::ROW)
    }

    /// A spell of who has this adaptive.
    #[inline]
    pub fn new(adaptive: &'a AdaptiveSpin) -> Self {
        let polls = if adaptive.sharing.peer_shares() { BATCH - FEW } else { 0 };
        Self { adaptive, polls, begun: None, looks: 0, gave_way: false, over: false }
    }

    /// A fresh spell: something was found.
    #[inline]
    pub fn reset(&mut self) {
        if self.begun.is_some() {
            self.end();
        }
        self.polls = 0;
    }

    #[cold]
    fn end(&mut self) {
        if !self.over {
            self.adaptive.came(true);
            self.adaptive.sharing.came(self.gave_way);
            metrics().spun(true);
        }
        (self.begun, self.looks, self.gave_way, self.over) = (None, 0, false, false);
    }

    /// Whether it has lasted as long as it should, for nothing, and was to last for more than a
    /// batch.
    pub fn in_vain(&self) -> bool {
        self.over && self.looks > 1
    }

    /// Whether it is worth mentioning: a batch of polls was in vain.
    #[inline]
    pub fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Since when it lasts, for [`AdaptiveSpin::slept`]: since now, if not one batch was in vain.
    pub fn since(&self) -> u64 {
        self.begun.unwrap_or_else(now_ns)
    }

    /// After a poll that found nothing: looks some times whether `stirs` says that there may be
    /// something to poll for. Whether to poll once more. `shares`: whether the peer may be waiting
    /// for this CPU.
    ///
    /// A look is to be little: what comes is seen half of one later, on either side of a call.
    #[inline(always)]
    pub fn again(&mut self, shares: bool, stirs: impl Fn() -> bool) -> bool {
        let mut looks = 0;
        while looks < Self::ROW {
            std::hint::spin_loop();
            looks += 1;
            if stirs() {
                break;
            }
        }
        self.after(looks, shares)
    }

    /// The same, after so many looks.
    #[inline(always)]
    pub fn after(&mut self, looks: u32, shares: bool) -> bool {
        self.polls += looks;
        if self.polls < BATCH {
            return true;
        }
        self.polls = 0;
        self.look_at_the_clock(shares);
        !self.over
    }

    /// Whether the last [`again`](Self::again) looked at the clock: the moment to look at other
    /// things too.
    #[inline]
    pub fn fresh_batch(&self) -> bool {
        self.polls == 0
    }

    /// Whether the spell has lasted long enough.
    #[inline]
    pub fn over(&self) -> bool {
        self.over
    }

    #[cold]
    fn look_at_the_clock(&mut self, shares: bool) {
        let now = now_ns();
        let until = *self.begun.get_or_insert(now) + self.adaptive.length();
        if now >= until && !self.over {
            self.over = true;
            if self.looks > 0 {
                metrics().spun(false);
            }
        }
        self.looks += 1;
        let patience = if self.adaptive.sharing.peer_shares() { PATIENCE.0 } else { PATIENCE.1 };
        if shares && self.looks >= patience && self.looks.is_power_of_two() && !self.over {
            // By now a peer with a processor of its own would have answered: it may be waiting for
            // this very one.
            if !CONTENTION.worth_giving_way(now) {
                self.over = true;
                return;
            }
            metrics().entered_kernel(1);
            if self.adaptive.sharing.should_leave(now) && cpu::leave() {
                return;
            }
            cpu::give_way();
            let back = now_ns();
            CONTENTION.record(back - now, back);
            self.gave_way = self.adaptive.sharing.gave_way(back - now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::park::wake_up_cost::SENSIBLE;

    /// Polls in vain until the spell is over; gives how many batches that took.
    fn spin_in_vain(adaptive: &AdaptiveSpin) -> u32 {
        let mut spin = Spin::new(adaptive);
        while spin.again(false, || false) {}
        assert!(spin.over());
        spin.looks
    }

    #[test]
    fn after_long_waits_a_spin_is_one_batch_until_waits_are_short_again() {
        let adaptive = AdaptiveSpin::new();
        let long = 100 * SENSIBLE.1;
        (0..4).for_each(|_| adaptive.slept(long));
        assert_eq!(adaptive.length(), 0);
        assert_eq!(spin_in_vain(&adaptive), 1, "one look at the clock, and it sleeps");
        adaptive.slept(1);
        assert!(adaptive.length() > 0, "a short wait makes it spin again");
        (0..8).for_each(|_| adaptive.slept(1));
        assert!(adaptive.length() >= 2 * SENSIBLE.0);
        (0..20).for_each(|_| adaptive.slept(long));
        assert_eq!(adaptive.length(), 0);
    }

    /// What two learn who wait for each other in turn: one computes for `work` before it posts, the
    /// other answers at once. From their worst spins on.
    fn lengths_learnt_from_each_other(work: u64, wake_up: u64) -> [u64; 2] {
        let spins = [AdaptiveSpin::new(), AdaptiveSpin::new()];
        spins.iter().for_each(|adaptive| adaptive.credit.set(0));
        let mut asleep = true;
        // Whether who waits for so long is asleep by then.
        let wait = |gap: u64, adaptive: &AdaptiveSpin| {
            let asleep = gap > adaptive.length();
            if asleep {
                adaptive.slept(gap + wake_up)
            } else {
                adaptive.came(true)
            }
            asleep
        };
        for _ in 0..100 {
            // Who sleeps has to be woken before it does its part.
            let server_sleeps = wait(if asleep { wake_up } else { 0 } + work, &spins[1]);
            asleep = wait(if server_sleeps { wake_up } else { 0 }, &spins[0]);
        }
        spins.map(|adaptive| adaptive.length())
    }

    #[test]
    fn two_peers_stop_sleeping_only_because_the_other_sleeps() {
        let cost = wake_up_cost();
        for work in [cost / 10, cost * 8 / 10] {
            for wake_up in [cost * 9 / 10, cost * 13 / 10] {
                let [client, server] = lengths_learnt_from_each_other(work, wake_up);
                assert!(client > 0 && server > work, "{work} {wake_up}: {client} {server}");
            }
        }
        assert_eq!(
            lengths_learnt_from_each_other(20 * cost, cost)[1],
            0,
            "a peer that comes seldom is not polled for"
        );
    }

    #[test]
    fn a_spell_that_finds_something_pays_and_one_that_ends_does_not() {
        let adaptive = AdaptiveSpin::new();
        let before = (metrics().spins_paid(), metrics().spins_in_vain());
        let mut spin = Spin::new(&adaptive);
        assert!(spin.again(false, || false));
        spin.reset();
        assert!(!spin.has_begun(), "less than a batch is no spin");
        while !spin.has_begun() {
            assert!(spin.again(false, || false));
        }
        spin.reset();
        assert_eq!(adaptive.credit.get(), 5);
        spin_in_vain(&adaptive);
        // Others spin beside this test.
        assert!(metrics().spins_paid() > before.0);
        assert!(metrics().spins_in_vain() > before.1);
    }
}
