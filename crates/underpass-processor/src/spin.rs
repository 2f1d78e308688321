//! How long an idle processor polls before it sleeps: about as long as a wake-up would cost.

use crate::tally;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use underpass_os::clock::now_ns;
use underpass_os::cpu;

/// What a wake-up across processors costs, in ns. The start value is the median of the machines that we measured.
static WAKE_UP: AtomicU64 = AtomicU64::new(50_000);

/// Sets how long processors poll before they sleep, in ns.
pub fn set_wake_up_cost(ns: u64) {
    WAKE_UP.store(ns, Ordering::Relaxed);
}

/// Polls between two looks at the clock.
pub const BATCH: u32 = 64;

/// The look at the clock at which an idle processor first gives way to others that are ready on its CPU; it does so again
/// after twice as many, and so on. On a CPU that others wanted the last time, and on one that nobody did.
const PATIENCE: (u32, u32) = (2, 8);

/// Giving way takes longer than this, in ns, if somebody else ran meanwhile.
const ALONE: u64 = 1_500;

/// Whether somebody else ran when a processor of this domain gave way the last time.
static WANTED: AtomicBool = AtomicBool::new(false);

/// One idle spell.
#[derive(Debug, Default)]
pub struct Spin {
    polls: u32,
    until: Option<u64>,
    looks: u32,
    over: bool,
}

impl Spin {
    /// A fresh spell: something was found.
    #[inline]
    pub fn reset(&mut self) {
        *self = Self::default();
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
        let until = *self.until.get_or_insert_with(|| now + WAKE_UP.load(Ordering::Relaxed));
        self.over = now >= until;
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
