//! How long an idle processor polls before it sleeps.
//!
//! By rule it polls for as long as a wake-up costs, and then sleeps. Such spin-then-park is
//! 2-competitive: it never pays more than twice as much as with knowledge of when the next message
//! comes.
//!
//! The previous gaps between messages may show that half of this price is wasted. If they were much
//! longer, it polls for one batch only. If they were shorter, or a little longer than the rule
//! would wait, it polls for twice as long.

use crate::idle::cpu_sharing::CpuSharing;
use crate::idle::yield_cost::YIELD_COST;
use crate::metrics;
use crate::park::wake_up_cost::wake_up_cost;
use std::cell::Cell;
use underpass_os::clock::now_ns;
use underpass_os::cpu;

/// The adaptive-spin state: what an idle processor has learnt of its waits. It knows whether
/// messages come soon, and whether they come from another CPU. It belongs to one kernel thread.
#[derive(Debug)]
pub struct AdaptiveSpin {
    credit: Cell<u8>,
    sharing: CpuSharing,
}

/// Below this credit it polls for one batch only.
const SOME: u8 = 1;
/// From this credit on it polls for twice as long.
const MUCH: u8 = 7;
const MOST: u8 = 8;

impl Default for AdaptiveSpin {
    fn default() -> Self {
        Self::new()
    }
}

impl AdaptiveSpin {
    /// A state that follows the rule.
    pub const fn new() -> Self {
        Self { credit: Cell::new(4), sharing: CpuSharing::new(false) }
    }

    /// As [`new`](Self::new), for an activation: it leaves a CPU that it shares with its peer. Only
    /// one of the two should leave. A plain kernel thread never does, since its CPU is its user's
    /// choice.
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

    /// A message came `ns` after the first poll, and a sleep was part of that time.
    ///
    /// One wake-up of that time is the sleeper's own. Another may be its peer's, which slept as
    /// well. If both took these wake-ups for a reason to sleep, they would sleep for ever. Without
    /// the peer's wake-up the time is no longer than the longest spin, which would have found the
    /// message.
    pub fn slept(&self, ns: u64) {
        self.came(ns < 3 * wake_up_cost());
    }
}

/// Polls between two readings of the clock.
const BATCH: u32 = 128;

/// Looks in a row. Each only sees whether there may be something to poll for.
const ROW: u32 = 16;

/// Polls before the first reading of the clock, if the last message came while this processor gave
/// way.
const FEW: u32 = 32;

/// At which reading of the clock an idle processor first gives way to others that are ready on its
/// CPU. It gives way again after twice as many readings, and so on. The first number applies if the
/// last message came while this processor gave way, the second one otherwise.
const PATIENCE: (u32, u32) = (1, 8);

/// One idle spell.
#[derive(Debug)]
pub struct Spin<'a> {
    adaptive: &'a AdaptiveSpin,
    polls: u32,
    /// Since when it lasts, once a batch has found nothing.
    begun: Option<u64>,
    looks: u32,
    /// Another thread ran when it last gave way.
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
    /// Polls between two readings of the clock.
    pub const BATCH: u32 = BATCH;

    /// A spell of the owner of `adaptive`.
    #[inline]
    pub fn new(adaptive: &'a AdaptiveSpin) -> Self {
        let polls = if adaptive.sharing.peer_shares() { BATCH - FEW } else { 0 };
        Self { adaptive, polls, begun: None, looks: 0, gave_way: false, over: false }
    }

    /// Something was found: begins a fresh spell.
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

    /// Whether it lasted as long as it should, found nothing, and was meant to last for more than a
    /// batch.
    pub fn in_vain(&self) -> bool {
        self.over && self.looks > 1
    }

    /// Whether it counts as a spin: a batch has found nothing.
    #[inline]
    pub fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// When it began, for [`AdaptiveSpin::slept`]. If not even one batch has found nothing, this is
    /// now.
    pub fn since(&self) -> u64 {
        self.begun.unwrap_or_else(now_ns)
    }

    /// Called after a poll that found nothing. Looks up to `ROW` times whether `stirs` says that
    /// there may be something to poll for. Returns whether to poll once more. `shares`: the peer
    /// may be waiting for this CPU.
    ///
    /// Keep `stirs` cheap: on average a message is seen half a look late, on either side of a call.
    #[inline(always)]
    pub fn again(&mut self, shares: bool, stirs: impl Fn() -> bool) -> bool {
        for _ in 0..ROW {
            std::hint::spin_loop();
            self.polls += 1;
            if stirs() {
                break;
            }
        }
        if self.polls < BATCH {
            return true;
        }
        self.polls = 0;
        self.look_at_the_clock(shares);
        !self.over
    }

    /// Whether the last [`again`](Self::again) read the clock. That is the moment to check other
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
            // A peer with a processor of its own would have answered by now. So it may be waiting
            // for this very CPU.
            if !YIELD_COST.worth_giving_way(now) {
                self.over = true;
                return;
            }
            metrics().entered_kernel(1);
            if self.adaptive.sharing.should_leave(now) && cpu::leave() {
                return;
            }
            cpu::give_way();
            let back = now_ns();
            YIELD_COST.record(back - now, back);
            self.gave_way = self.adaptive.sharing.gave_way(back - now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::park::wake_up_cost::BOUNDS;

    /// Polls without success until the spell is over. Returns how many batches that took.
    fn spin_in_vain(adaptive: &AdaptiveSpin) -> u32 {
        let mut spin = Spin::new(adaptive);
        while spin.again(false, || false) {}
        assert!(spin.over());
        spin.looks
    }

    #[test]
    fn after_long_waits_a_spin_is_one_batch_until_waits_are_short_again() {
        let adaptive = AdaptiveSpin::new();
        let long = 100 * BOUNDS.1;
        (0..4).for_each(|_| adaptive.slept(long));
        assert_eq!(adaptive.length(), 0);
        assert_eq!(spin_in_vain(&adaptive), 1, "one look at the clock, and it sleeps");
        adaptive.slept(1);
        assert!(adaptive.length() > 0, "a short wait makes it spin again");
        (0..8).for_each(|_| adaptive.slept(1));
        assert!(adaptive.length() >= 2 * BOUNDS.0);
        (0..20).for_each(|_| adaptive.slept(long));
        assert_eq!(adaptive.length(), 0);
    }

    /// How long two peers poll after 100 rounds of waiting for each other in turn. One computes for
    /// `work` before it posts; the other answers at once. Both start from no credit.
    fn lengths_learnt_from_each_other(work: u64, wake_up: u64) -> [u64; 2] {
        let spins = [AdaptiveSpin::new(), AdaptiveSpin::new()];
        spins.iter().for_each(|adaptive| adaptive.credit.set(0));
        let mut asleep = true;
        // Waits for `gap`, and returns whether the waiter is asleep by then.
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
            // A sleeper has to be woken before it does its part.
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
        // Other tests spin at the same time.
        assert!(metrics().spins_paid() > before.0);
        assert!(metrics().spins_in_vain() > before.1);
    }
}
