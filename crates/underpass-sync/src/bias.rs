//! Going in and out without locked instructions, by the one kernel thread that does so most.
//!
//! The proof is in `README.md`.

use crate::waiter::{Brief, asymmetric, brief, const_fn, heavy, here, light};
use underpass_seam::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use underpass_seam::spin_hint;

/// So often in a row a kernel thread has to be inside before it has the right, at first and at the most. To withdraw the right costs about as
/// much as some hundred locked instructions, so at worst a lock costs a few tenths more than without.
const PRICE: (u32, u32) = if cfg!(underpass_loom) { (0, 0) } else { (1 << 10, 1 << 24) };
/// Looks at who is inside before the processor is given away, as in `spin.rs`.
const SPINS: u32 = 64;

/// The right of one kernel thread to go inside some lock *plainly*, by a store and a load. All others go inside by the lock's own
/// word, after they have withdrawn the right.
///
/// | field | who writes it |
/// |---|---|
/// | `owner`, `ever`, `last`, `left`, `price` | who is inside by the lock's word |
/// | `inside` | the kernel thread that `ever` names |
pub(crate) struct Bias {
    /// Who has the right; 0 if nobody has.
    owner: AtomicUsize,
    /// Who has ever had it. No other gets it: this one may be about to write `inside`, however long ago it lost the right.
    ever: AtomicUsize,
    /// Who was inside by the word the last time, and how often it has to be there again to get the right.
    last: AtomicUsize,
    left: AtomicU32,
    price: AtomicU32,
    /// The owner is inside, or looks whether it is the owner.
    inside: AtomicBool,
}

/// The inside, until dropped.
pub(crate) struct Plainly<'a> {
    bias: &'a Bias,
    // Dropped after `drop` has left: who withdraws the right waits for us.
    #[allow(dead_code)]
    brief: Brief,
}

impl Bias {
    const_fn! {
        pub(crate) fn new() -> Bias {
            Bias {
                owner: AtomicUsize::new(0),
                ever: AtomicUsize::new(0),
                last: AtomicUsize::new(0),
                left: AtomicU32::new(0),
                price: AtomicU32::new(PRICE.0),
                inside: AtomicBool::new(false),
            }
        }
    }

    /// Goes inside plainly, if the caller's kernel thread has the right to.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Option<Plainly<'_>> {
        let here = here();
        if !self.is_owner(here) {
            return None;
        }
        let brief = brief();
        // B1. Relaxed: `light` orders it before B2.
        self.inside.store(true, Ordering::Relaxed);
        light();
        // B2.
        if self.is_owner(here) {
            return Some(Plainly { bias: self, brief });
        }
        self.leave();
        None
    }

    /// Whether the kernel thread `here`, the caller's, has the right at this moment. Relaxed: only itself could have given it; that it is
    /// withdrawn is seen in time by B1, B2, W1 and W2.
    #[inline(always)]
    fn is_owner(&self, here: usize) -> bool {
        // 0 only in models that are about something else.
        (!cfg!(underpass_loom) || here != 0) && self.owner.load(Ordering::Relaxed) == here
    }

    #[inline(always)]
    fn leave(&self) {
        // B3. SYNC with `inside` load in `withdraw_granted`: what we did inside.
        self.inside.store(false, Ordering::Release);
    }

    /// Takes the right away from who has it. The caller is inside by the lock's word; nobody is inside plainly when this returns,
    /// nor will be.
    #[inline]
    pub(crate) fn withdraw(&self) {
        // Relaxed, as all of these: written only inside.
        if self.owner.load(Ordering::Relaxed) != 0 {
            self.withdraw_granted();
        }
    }

    #[cold]
    fn withdraw_granted(&self) {
        let ours = self.is_owner(here());
        // W1. Relaxed: `heavy` orders it before W2.
        self.owner.store(0, Ordering::Relaxed);
        self.last.store(0, Ordering::Relaxed);
        if ours {
            // The owner isn't inside: it is here. This has cost nothing.
            return;
        }
        self.price.store((self.price.load(Ordering::Relaxed) * 2).min(PRICE.1), Ordering::Relaxed);
        heavy();
        let mut spins = 0;
        // W2. SYNC with `inside` store in `leave`: what was done inside.
        while self.inside.load(Ordering::Acquire) {
            spins += 1;
            if spins % SPINS == 0 {
                underpass_os::cpu::give_way();
            }
            spin_hint();
        }
    }

    /// The caller is inside by the lock's word: counts it. Whether it has been there so often in a row that it should get the right.
    #[inline]
    pub(crate) fn counts(&self) -> bool {
        let here = here();
        if cfg!(underpass_loom) && here == 0 {
            return false;
        }
        // Relaxed, all: written only inside.
        if self.last.load(Ordering::Relaxed) != here {
            self.last.store(here, Ordering::Relaxed);
            self.left.store(self.price.load(Ordering::Relaxed), Ordering::Relaxed);
            return false;
        }
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
        }
        left == 0 && self.may_have(here)
    }

    #[cold]
    fn may_have(&self, here: usize) -> bool {
        let ever = self.ever.load(Ordering::Relaxed);
        (ever == 0 || ever == here) && asymmetric()
    }

    /// Gives the right to the caller's kernel thread, which `counts` has said should have it. It is inside by the lock's word.
    pub(crate) fn grant(&self) {
        // Relaxed: others learn of it inside.
        self.ever.store(here(), Ordering::Relaxed);
        self.owner.store(here(), Ordering::Relaxed);
    }

    /// Takes back what was just granted, before anybody could learn of it.
    pub(crate) fn refuse(&self) {
        // Relaxed: as in `grant`.
        self.owner.store(0, Ordering::Relaxed);
    }
}

impl Drop for Plainly<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.bias.leave();
    }
}
