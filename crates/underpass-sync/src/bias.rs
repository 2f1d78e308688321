//! Biased locking: the kernel thread that uses a lock most enters it without locked instructions.
//!
//! The proof is in `README.md`.

use crate::runtime::{BriefSection, asymmetric, brief, const_fn, heavy, here, light};
use underpass_seam::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use underpass_seam::spin_hint;

/// How many uses in a row give a kernel thread the bias: at first, and at the most. A revocation
/// costs about as much as several hundred locked instructions. So at worst a lock costs a few
/// tenths more than an unbiased one.
const USES_BEFORE_GRANT: (u32, u32) = if cfg!(underpass_loom) { (0, 0) } else { (1 << 10, 1 << 24) };
/// An owner that kept the bias for this many times as long as its revocation takes has kept it long
/// enough: revocations take at most that part of the time.
const KEPT_FACTOR: u32 = 32;
/// A revocation counts as at least this many µs, whatever the clock says.
const MIN_REVOCATION_US: u32 = 8;
/// How many kernel threads may have flags at once: the owner, and former owners that have not
/// entered by the lock word since.
const FLAGS: usize = 4;
/// Reads of a flag before this thread gives its processor away, as in `spin_lock.rs`.
const SPINS: u32 = 64;

/// The bias of a lock: the right of one kernel thread, the *owner*, to enter by a store and a load.
/// All other threads enter by the lock word, after they have revoked the bias.
///
/// Each owner has a *flag* of its own in `inside`, as long as it may write there.
///
/// | field | written by |
/// |---|---|
/// | `owner`, `holders`, `last_user`, `uses_left`, `uses_needed`, `granted` | the thread that has entered by the lock word |
/// | `inside[flag]` | the kernel thread that `holders[flag]` names |
#[repr(C)]
pub(crate) struct Bias {
    /// The owner, with the number of its flag in the low bits, which are free in a kernel thread's
    /// mark. 0 if there is none.
    owner: AtomicUsize,
    /// Set while the owner is inside, or checks whether it is still the owner.
    inside: [AtomicBool; FLAGS],
    /// How many more uses in a row `last_user` needs to get the bias.
    uses_left: AtomicU32,
    uses_needed: AtomicU32,
    /// When the bias was granted, in µs of a clock that wraps around. 0 if it never was.
    granted: AtomicU32,
    /// The kernel thread that entered last by the lock word.
    last_user: AtomicUsize,
    /// The kernel thread that has each flag. It is the owner; or it was, and may still be about to
    /// write its flag, until it has entered by the lock word. 0 if the flag is free.
    holders: [AtomicUsize; FLAGS],
}

/// The owner is inside. It leaves when this is dropped.
pub(crate) struct BiasedEntry<'a> {
    inside: &'a AtomicBool,
    // Dropped after `drop` has left: a thread that revokes the bias waits for us.
    #[allow(dead_code)]
    brief: BriefSection,
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

    /// Enters by the bias, if the caller's kernel thread is the owner.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Option<BiasedEntry<'_>> {
        // Relaxed: only this kernel thread could have made itself the owner, or an ended one that
        // had the same mark. A revocation is seen in time by B1, B2, W1 and W2.
        let owner = self.owner.load(Ordering::Relaxed);
        let inside = self.inside.get(flag(owner, here())?)?;
        let brief = brief();
        // B1. Relaxed: `light` orders it before B2.
        inside.store(true, Ordering::Relaxed);
        light();
        let entry = BiasedEntry { inside, brief };
        // B2. If another value is there, dropping the entry is B3.
        (self.owner.load(Ordering::Relaxed) == owner).then_some(entry)
    }

    /// Takes the bias away from its owner. The caller has entered by the lock word. When this
    /// returns, nobody is inside by the bias, or will be.
    #[inline]
    pub(crate) fn revoke(&self) {
        // Relaxed, all of these: they are written only inside.
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
            // The owner runs this very code, so it isn't inside. This needs no barrier.
            return;
        }
        let begun = now_us();
        heavy();
        let inside = &self.inside[owner % FLAGS];
        let mut spins = 0;
        // W2. SYNC with `inside` store in `drop`: what the owner did inside.
        while inside.load(Ordering::Acquire) {
            spins += 1;
            if spins % SPINS == 0 {
                underpass_os::cpu::give_way();
            }
            spin_hint();
        }
        self.uses_needed.store(self.uses_needed_after(begun), Ordering::Relaxed);
    }

    /// How many uses the bias needs from now on. Another thread than the owner has revoked it,
    /// beginning at `begun`.
    fn uses_needed_after(&self, begun: u32) -> u32 {
        let kept = begun.wrapping_sub(self.granted.load(Ordering::Relaxed));
        let took = now_us().wrapping_sub(begun).max(MIN_REVOCATION_US);
        if kept / KEPT_FACTOR >= took {
            USES_BEFORE_GRANT.0
        } else {
            (self.uses_needed.load(Ordering::Relaxed) * 2).min(USES_BEFORE_GRANT.1)
        }
    }

    /// Counts an entry by the lock word, in which the caller is. Returns whether its kernel thread
    /// has entered often enough in a row to get the bias.
    #[inline]
    pub(crate) fn count_use(&self) -> bool {
        let here = here();
        if cfg!(underpass_loom) && here == 0 {
            return false;
        }
        // Relaxed, all: they are written only inside.
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

    /// The kernel thread `here` has entered by the lock word after another one. It is counted anew.
    /// It isn't about to write its flag, so that becomes free.
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

    /// Makes the caller's kernel thread the owner, as `count_use` has advised. The caller has
    /// entered by the lock word.
    #[cold]
    pub(crate) fn grant(&self) {
        let Some(flag) = self.free_flag() else { return };
        if cfg!(any(debug_assertions, underpass_loom)) {
            assert!(here().is_multiple_of(FLAGS), "the low bits of a kernel thread's mark are free");
            let other = self.holders.iter().find(|holder| holder.load(Ordering::Relaxed) == here());
            assert!(other.is_none(), "each kernel thread has one flag");
        }
        // Relaxed: other threads read them inside.
        self.granted.store(now_us(), Ordering::Relaxed);
        self.holders[flag].store(here(), Ordering::Relaxed);
        self.owner.store(here() | flag, Ordering::Relaxed);
    }

    /// Undoes a grant of which no other thread could know yet.
    #[cold]
    pub(crate) fn take_back(&self) {
        // Relaxed: as in `grant`.
        self.owner.store(0, Ordering::Relaxed);
        self.release_flag_of(here());
    }
}

/// The number of the owner's flag, if `here` is the owner.
#[inline(always)]
fn flag(owner: usize, here: usize) -> Option<usize> {
    let flag = owner ^ here;
    // 0 only in models without bias.
    ((!cfg!(underpass_loom) || here != 0) && flag < FLAGS).then_some(flag)
}

/// The time in µs. Never 0, so it is exact to two µs.
fn now_us() -> u32 {
    // In models time stands still.
    if cfg!(underpass_loom) { 1 } else { (underpass_os::clock::now_ns() / 1000) as u32 | 1 }
}

impl Drop for BiasedEntry<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // B3. SYNC with `inside` load in `revoke_granted`: what we did inside.
        self.inside.store(false, Ordering::Release);
    }
}
