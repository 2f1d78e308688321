//! Going in and out without locked instructions, by the one kernel thread that does so most.
//!
//! The proof is in `README.md`.

use crate::waiter::{BriefSection, asymmetric, brief, const_fn, heavy, here, light};
use underpass_seam::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use underpass_seam::spin_hint;

/// So often in a row a kernel thread has to be inside before it has the right, at first and at the
/// most. To withdraw the right costs about as much as some hundred locked instructions, so at worst
/// a lock costs a few tenths more than without.
const PRICE: (u32, u32) = if cfg!(underpass_loom) { (0, 0) } else { (1 << 10, 1 << 24) };
/// Who kept the right for so many times as long as its withdrawal takes has had it for long enough:
/// that costs so small a part of the time, then.
const WORTH: u32 = 32;
/// A withdrawal takes so many us at least, whatever the clock says.
const QUICKEST: u32 = 8;
/// So many kernel threads may have had the right without having been inside by the word since.
const FLAGS: usize = 4;
/// Looks at who is inside before the processor is given away, as in `spin.rs`.
const SPINS: u32 = 64;

/// The right of one kernel thread to go inside some lock *plainly*, by a store and a load. All
/// others go inside by the lock's own word, after they have withdrawn the right.
///
/// Each who gets the right has a *flag* of its own among `inside`, as long as it may write there.
///
/// | field | who writes it |
/// |---|---|
/// | `owner`, `holders`, `last`, `left`, `price`, `granted` | who is inside by the lock's word |
/// | `inside[flag]` | the kernel thread that `holders[flag]` names |
#[repr(C)]
pub(crate) struct Bias {
    /// Who has the right, and its flag in the bits that are free in a kernel thread's name; 0 if
    /// nobody has.
    owner: AtomicUsize,
    /// The owner is inside, or looks whether it is the owner.
    inside: [AtomicBool; FLAGS],
    /// So often `last` has to be there again to get the right.
    left: AtomicU32,
    price: AtomicU32,
    /// When the right was given, in us of a clock that goes round; 0 if it never was.
    granted: AtomicU32,
    /// Who was inside by the word the last time.
    last: AtomicUsize,
    /// Who has the right, or had it and may be about to write `inside`, however long ago it lost
    /// it: until it has been inside by the word. 0 if nobody.
    holders: [AtomicUsize; FLAGS],
}

/// The inside, until dropped.
pub(crate) struct Plainly<'a> {
    inside: &'a AtomicBool,
    // Dropped after `drop` has left: who withdraws the right waits for us.
    #[allow(dead_code)]
    brief: BriefSection,
}

impl Bias {
    const_fn! {
        pub(crate) fn new() -> Bias {
            Bias {
                owner: AtomicUsize::new(0),
                inside: [AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false)],
                left: AtomicU32::new(0),
                price: AtomicU32::new(PRICE.0),
                granted: AtomicU32::new(0),
                last: AtomicUsize::new(0),
                holders: [AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0)],
            }
        }
    }

    /// Goes inside plainly, if the caller's kernel thread has the right to.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Option<Plainly<'_>> {
        // Relaxed: only the kernel thread itself could have given it the right, or one that has
        // ended and had its name; that it is withdrawn is seen in time by B1, B2, W1 and W2.
        let owner = self.owner.load(Ordering::Relaxed);
        let inside = self.inside.get(flag(owner, here())?)?;
        let brief = brief();
        // B1. Relaxed: `light` orders it before B2.
        inside.store(true, Ordering::Relaxed);
        light();
        let plainly = Plainly { inside, brief };
        // B2. If not, dropping it is B3.
        (self.owner.load(Ordering::Relaxed) == owner).then_some(plainly)
    }

    /// Takes the right away from who has it. The caller is inside by the lock's word; nobody is
    /// inside plainly when this returns, nor will be.
    #[inline]
    pub(crate) fn withdraw(&self) {
        // Relaxed, as all of these: written only inside.
        if self.owner.load(Ordering::Relaxed) != 0 {
            self.withdraw_granted();
        }
    }

    #[cold]
    fn withdraw_granted(&self) {
        let owner = self.owner.load(Ordering::Relaxed);
        // W1. Relaxed: `heavy` orders it before W2.
        self.owner.store(0, Ordering::Relaxed);
        self.last.store(0, Ordering::Relaxed);
        if flag(owner, here()).is_some() {
            // The owner isn't inside: it is here. This has cost nothing.
            return;
        }
        let begun = now_us();
        heavy();
        let inside = &self.inside[owner % FLAGS];
        let mut spins = 0;
        // W2. SYNC with `inside` store in `drop`: what was done inside.
        while inside.load(Ordering::Acquire) {
            spins += 1;
            if spins % SPINS == 0 {
                underpass_os::cpu::give_way();
            }
            spin_hint();
        }
        self.price.store(self.price_after(begun), Ordering::Relaxed);
    }

    /// What the right costs from now on, when another than its owner has withdrawn it, since
    /// `begun`.
    fn price_after(&self, begun: u32) -> u32 {
        let kept = begun.wrapping_sub(self.granted.load(Ordering::Relaxed));
        let took = now_us().wrapping_sub(begun).max(QUICKEST);
        if kept / WORTH >= took { PRICE.0 } else { (self.price.load(Ordering::Relaxed) * 2).min(PRICE.1) }
    }

    /// The caller is inside by the lock's word: counts it. Whether it has been there so often in a
    /// row that it should get the right.
    #[inline]
    pub(crate) fn counts(&self) -> bool {
        let here = here();
        if cfg!(underpass_loom) && here == 0 {
            return false;
        }
        // Relaxed, all: written only inside.
        if self.last.load(Ordering::Relaxed) != here {
            self.comes_anew(here);
            return false;
        }
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
        }
        left == 0 && self.free_flag().is_some() && asymmetric()
    }

    /// The kernel thread `here` is inside by the word, and begins to be counted: it isn't about to
    /// write `inside`.
    fn comes_anew(&self, here: usize) {
        self.last.store(here, Ordering::Relaxed);
        self.left.store(self.price.load(Ordering::Relaxed), Ordering::Relaxed);
        if self.granted.load(Ordering::Relaxed) != 0 {
            self.is_back(here);
        }
    }

    fn is_back(&self, here: usize) {
        if let Some(holder) = self.holders.iter().find(|holder| holder.load(Ordering::Relaxed) == here) {
            holder.store(0, Ordering::Relaxed);
        }
    }

    fn free_flag(&self) -> Option<usize> {
        self.holders.iter().position(|holder| holder.load(Ordering::Relaxed) == 0)
    }

    /// Gives the right to the caller's kernel thread, which `counts` has said should have it. It is
    /// inside by the lock's word.
    #[cold]
    pub(crate) fn grant(&self) {
        let Some(flag) = self.free_flag() else { return };
        if cfg!(any(debug_assertions, underpass_loom)) {
            assert!(here().is_multiple_of(FLAGS), "these bits of a kernel thread's name are free");
            let other = self.holders.iter().find(|holder| holder.load(Ordering::Relaxed) == here());
            assert!(other.is_none(), "each has one flag");
        }
        // Relaxed: others learn of it inside.
        self.granted.store(now_us(), Ordering::Relaxed);
        self.holders[flag].store(here(), Ordering::Relaxed);
        self.owner.store(here() | flag, Ordering::Relaxed);
    }

    /// Takes back what was just granted, before anybody could learn of it.
    #[cold]
    pub(crate) fn refuse(&self) {
        // Relaxed: as in `grant`.
        self.owner.store(0, Ordering::Relaxed);
        self.is_back(here());
    }
}

/// The flag of the owner, if that is the kernel thread `here`.
#[inline(always)]
fn flag(owner: usize, here: usize) -> Option<usize> {
    let flag = owner ^ here;
    // 0 only in models that are about something else.
    ((!cfg!(underpass_loom) || here != 0) && flag < FLAGS).then_some(flag)
}

/// Never 0, so exact to two.
fn now_us() -> u32 {
    // A model's time stands still.
    if cfg!(underpass_loom) { 1 } else { (underpass_os::clock::now_ns() / 1000) as u32 | 1 }
}

impl Drop for Plainly<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // B3. SYNC with `inside` load in `withdraw_granted`: what we did inside.
        self.inside.store(false, Ordering::Release);
    }
}
