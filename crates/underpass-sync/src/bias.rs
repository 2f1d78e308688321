//! Going in and out without locked instructions, by the one kernel thread that does so most.
//!
//! The proof is in `README.md`.

use crate::runtime::{Brief, asymmetric, brief, const_fn, heavy, here, light};
use underpass_seam::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use underpass_seam::spin_hint;

/// So often in a row a kernel thread has to be inside before it has the right, at first and at the
/// most. To withdraw the right costs about as much as some hundred locked instructions, so at worst
/// a lock costs a few tenths more than without.
const USES_BEFORE_GRANT: (u32, u32) = if cfg!(underpass_loom) { (0, 0) } else { (1 << 10, 1 << 24) };
/// Who kept the right for so many times as long as its withdrawal takes has had it for long enough:
/// that costs so small a part of the time, then.
const KEPT_FACTOR: u32 = 32;
/// A withdrawal takes so many us at least, whatever the clock says.
const MIN_REVOCATION_US: u32 = 8;
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
/// | `owner`, `holders`, `last_user`, `uses_left`, `uses_needed`, `granted` | who is inside by the lock's word |
/// | `inside[flag]` | the kernel thread that `holders[flag]` names |
#[repr(C)]
pub(crate) struct Bias {
    /// Who has the right, and its flag in the bits that are free in a kernel thread's name; 0 if
    /// nobody has.
    owner: AtomicUsize,
    /// The owner is inside, or looks whether it is the owner.
    inside: [AtomicBool; FLAGS],
    /// So often `last_user` has to be there again to get the right.
    uses_left: AtomicU32,
    uses_needed: AtomicU32,
    /// When the right was given, in us of a clock that goes round; 0 if it never was.
    granted: AtomicU32,
    /// Who was inside by the word the last time.
    last_user: AtomicUsize,
    /// Who has the right, or had it and may be about to write `inside`, however long ago it lost
    /// it: until it has been inside by the word. 0 if nobody.
    holders: [AtomicUsize; FLAGS],
}

/// The inside, until dropped.
pub(crate) struct BiasedEntry<'a> {
    inside: &'a AtomicBool,
    // Dropped after `drop` has left: who withdraws the right waits for us.
    #[allow(dead_code)]
    brief: Brief,
}

impl Bias {
    const_fn! {
        pub(crate) fn new() -> Bias {
            Bias {
                owner: AtomicUsize::new(0),
                inside: [AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false)],
                uses_left: AtomicU32::new(0),
                uses_needed: AtomicU32::new(USES_BEFORE_GRANT.0),
                granted: AtomicU32::new(0),
                last_user: AtomicUsize::new(0),
                holders: [AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0)],
            }
        }
    }

    /// Goes inside plainly, if the caller's kernel thread has the right to.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Option<BiasedEntry<'_>> {
        // Relaxed: only the kernel thread itself could have given it the right, or one that has
        // ended and had its name; that it is withdrawn is seen in time by B1, B2, W1 and W2.
        let owner = self.owner.load(Ordering::Relaxed);
        let inside = self.inside.get(flag(owner, here())?)?;
        let brief = brief();
        // B1. Relaxed: `light` orders it before B2.
        inside.store(true, Ordering::Relaxed);
        light();
        let entry = BiasedEntry { inside, brief };
        // B2. If not, dropping it is B3.
        (self.owner.load(Ordering::Relaxed) == owner).then_some(entry)
    }

    /// Takes the right away from who has it. The caller is inside by the lock's word; nobody is
    /// inside plainly when this returns, nor will be.
    #[inline]
    pub(crate) fn revoke(&self) {
        // Relaxed, as all of these: written only inside.
        if self.owner.load(Ordering::Relaxed) != 0 {
            self.revoke_granted();
        }
    }

    #[cold]
    fn revoke_granted(&self) {
        let owner = self.owner.load(Ordering::Relaxed);
        // W1. Relaxed: `heavy` orders it before W2.
        self.owner.store(0, Ordering::Relaxed);
        self.last_user.store(0, Ordering::Relaxed);
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
        self.uses_needed.store(self.uses_needed_after(begun), Ordering::Relaxed);
    }

    /// What the right costs from now on, when another than its owner has withdrawn it, since
    /// `begun`.
    fn uses_needed_after(&self, begun: u32) -> u32 {
        let kept = begun.wrapping_sub(self.granted.load(Ordering::Relaxed));
        let took = now_us().wrapping_sub(begun).max(MIN_REVOCATION_US);
        if kept / KEPT_FACTOR >= took {
            USES_BEFORE_GRANT.0
        } else {
            (self.uses_needed.load(Ordering::Relaxed) * 2).min(USES_BEFORE_GRANT.1)
        }
    }

    /// The caller is inside by the lock's word: counts it. Whether it has been there so often in a
    /// row that it should get the right.
    #[inline]
    pub(crate) fn count_use(&self) -> bool {
        let here = here();
        if cfg!(underpass_loom) && here == 0 {
            return false;
        }
        // Relaxed, all: written only inside.
        if self.last_user.load(Ordering::Relaxed) != here {
            self.start_count(here);
            return false;
        }
        let uses_left = self.uses_left.load(Ordering::Relaxed);
        if uses_left > 0 {
            self.uses_left.store(uses_left - 1, Ordering::Relaxed);
        }
        uses_left == 0 && self.free_flag().is_some() && asymmetric()
    }

    /// The kernel thread `here` is inside by the word, and begins to be counted: it isn't about to
    /// write `inside`.
    fn start_count(&self, here: usize) {
        self.last_user.store(here, Ordering::Relaxed);
        self.uses_left.store(self.uses_needed.load(Ordering::Relaxed), Ordering::Relaxed);
        if self.granted.load(Ordering::Relaxed) != 0 {
            self.release_flag_of(here);
        }
    }

    fn release_flag_of(&self, here: usize) {
        if let Some(holder) = self.holders.iter().find(|holder| holder.load(Ordering::Relaxed) == here) {
            holder.store(0, Ordering::Relaxed);
        }
    }

    fn free_flag(&self) -> Option<usize> {
        self.holders.iter().position(|holder| holder.load(Ordering::Relaxed) == 0)
    }

    /// Gives the right to the caller's kernel thread, which `count_use` has said should have it. It is
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
    pub(crate) fn take_back(&self) {
        // Relaxed: as in `grant`.
        self.owner.store(0, Ordering::Relaxed);
        self.release_flag_of(here());
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

impl Drop for BiasedEntry<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // B3. SYNC with `inside` load in `revoke_granted`: what we did inside.
        self.inside.store(false, Ordering::Release);
    }
}
