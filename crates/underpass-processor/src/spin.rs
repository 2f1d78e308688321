//! How long an idle processor polls before it sleeps.
//!
//! Who polls for as long as a wake-up costs, and then sleeps, never pays more than twice what one would pay who knew when the next message comes. So that is
//! the rule, until the gaps before it show which half of the price is wasted: where they are much longer, nothing is polled for beyond a batch of looks; where
//! they are shorter, or a little longer than the rule would wait, it polls for twice as long.

use crate::tally;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use underpass_os::clock::now_ns;
use underpass_os::cpu;

/// What a wake-up across processors costs, in ns: about the median of those that this domain has seen, from the median of the machines that we measured on.
static WAKE_UP: AtomicU64 = AtomicU64::new(50_000);

/// Between these, in ns: one on the same CPU, and one on a machine that does much else.
const SENSIBLE: (u64, u64) = (3_000, 200_000);

/// One wake-up that was seen moves the estimate by such a part of it.
const STEP: u64 = 8;

/// Sets what a wake-up is thought to cost, in ns. What is seen of wake-ups moves it on.
pub fn set_wake_up_cost(ns: u64) {
    WAKE_UP.store(ns.clamp(SENSIBLE.0, SENSIBLE.1), Ordering::Relaxed);
}

/// What a wake-up is thought to cost, in ns: how long idle processors poll by rule (URPC, section 4.4; DESIGN.md, section 7).
///
/// # Examples
/// ```
/// assert!(underpass_processor::wake_up_cost() >= 3_000);
/// ```
pub fn wake_up_cost() -> u64 {
    // Relaxed, here and wherever it is written: an estimate.
    WAKE_UP.load(Ordering::Relaxed)
}

/// A wake-up took so long, in ns, from the call to the called.
pub(crate) fn saw_wake_up(ns: u64) {
    set_wake_up_cost(moved(wake_up_cost(), ns));
}

/// The estimate after one that took `ns`.
fn moved(estimate: u64, ns: u64) -> u64 {
    let step = estimate / STEP;
    let moved = if ns > estimate { estimate + step } else { estimate - step };
    moved.clamp(SENSIBLE.0, SENSIBLE.1)
}

/// What an idle processor has learnt of its waits: whether what it waits for comes soon. One kernel thread's.
#[derive(Debug)]
pub struct Habit {
    credit: Cell<u8>,
}

/// No more than a batch of polls below this.
const SOME: u8 = 1;
/// Twice as long from here on.
const MUCH: u8 = 7;
const MOST: u8 = 8;

impl Default for Habit {
    fn default() -> Self {
        Self::new()
    }
}

impl Habit {
    /// One that follows the rule.
    pub const fn new() -> Self {
        Self { credit: Cell::new(4) }
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

    /// What was waited for came after a sleep of so long, in ns, the wake-up included.
    pub fn slept(&self, ns: u64) {
        self.came(ns < 2 * wake_up_cost());
    }
}

/// Polls between two looks at the clock.
const BATCH: u32 = 64;

/// The look at the clock at which an idle processor first gives way to others that are ready on its CPU; it does so again
/// after twice as many, and so on. On a CPU that others wanted the last time, and on one that nobody did.
const PATIENCE: (u32, u32) = (2, 8);

/// Giving way takes longer than this, in ns, if somebody else ran meanwhile.
const ALONE: u64 = 1_500;

/// Whether somebody else ran when a processor of this domain gave way the last time.
static WANTED: AtomicBool = AtomicBool::new(false);

/// One idle spell.
#[derive(Debug)]
pub struct Spin<'a> {
    habit: &'a Habit,
    polls: u32,
    /// Until when to poll, once a batch was in vain.
    until: Option<u64>,
    looks: u32,
    over: bool,
}

impl Drop for Spin<'_> {
    #[inline]
    fn drop(&mut self) {
        self.reset();
    }
}

impl<'a> Spin<'a> {
    /// Polls between two looks at the clock.
    pub const BATCH: u32 = BATCH;

    /// A spell of who has this habit.
    #[inline]
    pub fn new(habit: &'a Habit) -> Self {
        Self { habit, polls: 0, until: None, looks: 0, over: false }
    }

    /// A fresh spell: something was found.
    #[inline]
    pub fn reset(&mut self) {
        if self.until.is_some() {
            self.end();
        }
        self.polls = 0;
    }

    #[cold]
    fn end(&mut self) {
        if !self.over {
            self.habit.came(true);
            tally().spun(true);
        }
        (self.until, self.looks, self.over) = (None, 0, false);
    }

    /// Whether it has lasted as long as it should, for nothing, and was to last for more than a batch.
    pub fn in_vain(&self) -> bool {
        self.over && self.looks > 1
    }

    /// Whether it is worth mentioning: a batch of polls was in vain.
    #[inline]
    pub fn has_begun(&self) -> bool {
        self.until.is_some()
    }

    /// After a poll that found nothing: whether to poll once more. `shares`: whether the peer may be waiting for this CPU.
    #[inline]
    pub fn again(&mut self, shares: bool) -> bool {
        std::hint::spin_loop();
        self.polls += 1;
        if self.polls < BATCH {
            return true;
        }
        self.polls = 0;
        self.look_at_the_clock(shares);
        !self.over
    }

    /// Whether the last [`again`](Self::again) looked at the clock: the moment to look at other things too.
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
        let until = *self.until.get_or_insert_with(|| now + self.habit.length());
        if now >= until && !self.over {
            self.over = true;
            if self.looks > 0 {
                tally().spun(false);
            }
        }
        self.looks += 1;
        // Relaxed, here and below: a habit, of no consequence but time.
        let patience = if WANTED.load(Ordering::Relaxed) { PATIENCE.0 } else { PATIENCE.1 };
        if shares && self.looks >= patience && self.looks.is_power_of_two() && !self.over {
            // By now a peer with a processor of its own would have answered: it may be waiting for this very one.
            tally().entered_kernel(1);
            cpu::give_way();
            WANTED.store(now_ns() - now > ALONE, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls in vain until the spell is over; gives how many batches that took.
    fn spin_in_vain(habit: &Habit) -> u32 {
        let mut spin = Spin::new(habit);
        while spin.again(false) {}
        assert!(spin.over());
        spin.looks
    }

    #[test]
    fn who_waits_long_polls_for_a_batch_and_learns_again() {
        let habit = Habit::new();
        let long = 100 * SENSIBLE.1;
        (0..4).for_each(|_| habit.slept(long));
        assert_eq!(habit.length(), 0);
        assert_eq!(spin_in_vain(&habit), 1, "one look at the clock, and it sleeps");
        habit.slept(1);
        assert!(habit.length() > 0, "what comes soon is worth a spin again");
        (0..8).for_each(|_| habit.slept(1));
        assert!(habit.length() >= 2 * SENSIBLE.0);
        (0..20).for_each(|_| habit.slept(long));
        assert_eq!(habit.length(), 0);
    }

    #[test]
    fn a_spell_that_finds_something_pays_and_one_that_ends_does_not() {
        let habit = Habit::new();
        let before = (tally().spins_paid(), tally().spins_in_vain());
        let mut spin = Spin::new(&habit);
        assert!(spin.again(false));
        spin.reset();
        assert!(!spin.has_begun(), "less than a batch is no spin");
        while !spin.has_begun() {
            assert!(spin.again(false));
        }
        spin.reset();
        assert_eq!(habit.credit.get(), 5);
        spin_in_vain(&habit);
        // Others spin beside this test.
        assert!(tally().spins_paid() > before.0);
        assert!(tally().spins_in_vain() > before.1);
    }

    #[test]
    fn the_estimate_follows_what_is_seen() {
        let after = |seen: u64| (0..100).fold(50_000, |estimate, _| moved(estimate, seen));
        assert_eq!(after(0), SENSIBLE.0);
        assert_eq!(after(u64::MAX), SENSIBLE.1);
        assert!((20_000..30_000).contains(&after(24_000)), "it stays near what is seen again and again");
    }
}
