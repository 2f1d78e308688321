//! The atomic word of the permit counts: how many are taken, how many activations wait for one, and
//! how many there are.

use underpass_seam::atomic::{AtomicU64, Ordering, fence};

/// The three counts at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Permits that are taken.
    pub running: u32,
    /// Activations that wait for a permit.
    pub waiting: u32,
    /// Permits in all.
    pub maximum: u32,
}

const BITS: u32 = 16;
const MASK: u64 = (1 << BITS) - 1;

impl Counts {
    fn unpack(word: u64) -> Self {
        let part = |n: u32| (word >> (n * BITS) & MASK) as u32;
        Self { running: part(0), waiting: part(1), maximum: part(2) }
    }

    fn pack(self) -> u64 {
        u64::from(self.running) | u64::from(self.waiting) << BITS | u64::from(self.maximum) << (2 * BITS)
    }

    /// Whether a permit is free.
    pub fn free(self) -> bool {
        self.running < self.maximum
    }
}

/// The outcome of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// An activation waits for the permit: the caller has to grant it.
    Owed,
    /// The permit is free. The number says how many are taken now.
    Freed(u32),
}

/// The permits of a domain: the steps on the word that the README describes. Any activation, the
/// signal handler and the monitor may take these steps.
#[derive(Debug)]
pub struct Permits {
    word: AtomicU64,
    /// The next ticket.
    tickets: AtomicU64,
}

/// A full fence after a read-modify-write of the caller. On x86 the read-modify-write itself was
/// one.
#[inline]
pub(crate) fn fence_after_change() {
    #[cfg(all(target_arch = "x86_64", not(underpass_loom)))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(not(all(target_arch = "x86_64", not(underpass_loom))))]
    fence(Ordering::SeqCst);
}

/// A full fence.
#[inline]
pub(crate) fn full_fence() {
    fence(Ordering::SeqCst);
}

impl Permits {
    /// `maximum` permits, all of them free.
    pub fn new(maximum: u32) -> Self {
        let counts = Counts { running: 0, waiting: 0, maximum };
        Self { word: AtomicU64::new(counts.pack()), tickets: AtomicU64::new(1) }
    }

    /// The counts now. They may change as soon as they are read, so a step that acts on them
    /// compares again.
    #[inline]
    pub fn counts(&self) -> Counts {
        // Relaxed: callers that need an order have fences around this.
        Counts::unpack(self.word.load(Ordering::Relaxed))
    }

    /// A number greater than all tickets before it.
    pub fn ticket(&self) -> u64 {
        // Relaxed: it orders waiters, and nothing else.
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }

    /// Changes the counts by `how` in one step. If `how` returns `None`, nothing changes.
    fn step<R>(&self, mut how: impl FnMut(&mut Counts) -> Option<R>) -> Option<R> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let mut counts = Counts::unpack(word);
            let result = how(&mut counts)?;
            // SYNC with `word` compare_exchange in `step`: what the last one to release, enlist or
            // take did before.
            match self.word.compare_exchange_weak(word, counts.pack(), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(result),
                Err(now) => word = now,
            }
        }
    }

    /// *Take*: takes a free permit in hand. Returns `false` if none is free.
    pub fn take(&self) -> bool {
        self.step(|counts| counts.free().then(|| counts.running += 1)).is_some()
    }

    /// *Enlist*: counts an activation that has been published as waiting. If a permit is free,
    /// takes that instead, and returns `true`: the caller has to grant it.
    pub fn enlist(&self) -> bool {
        self.step(|counts| {
            let free = counts.free();
            if free {
                counts.running += 1;
            } else {
                counts.waiting += 1;
            }
            Some(free)
        })
        .unwrap_or(false)
    }

    /// *Release*: gives back the permit that the caller has in hand.
    pub fn release(&self) -> Released {
        self.step(|counts| {
            Some(if counts.waiting > 0 && counts.running <= counts.maximum {
                counts.waiting -= 1;
                Released::Owed
            } else {
                counts.running -= 1;
                Released::Freed(counts.running)
            })
        })
        .unwrap_or(Released::Owed)
    }

    /// Sets the maximum. Returns how many permits the caller has to grant.
    pub fn set_maximum(&self, maximum: u32) -> u32 {
        self.step(|counts| {
            counts.maximum = maximum;
            let owed = counts.waiting.min(maximum.saturating_sub(counts.running));
            counts.running += owed;
            counts.waiting -= owed;
            Some(owed)
        })
        .unwrap_or(0)
    }
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    fn counts(permits: &Permits) -> (u32, u32, u32) {
        let Counts { running, waiting, maximum } = permits.counts();
        (running, waiting, maximum)
    }

    #[test]
    fn permits_are_taken_and_freed() {
        let permits = Permits::new(2);
        assert!(permits.take() && permits.take() && !permits.take());
        assert_eq!(permits.release(), Released::Freed(1));
        assert_eq!(permits.release(), Released::Freed(0));
    }

    #[test]
    fn a_released_permit_is_owed_to_a_waiter() {
        let permits = Permits::new(1);
        assert!(permits.enlist(), "it was free");
        assert!(!permits.enlist());
        assert_eq!(counts(&permits), (1, 1, 1));
        assert_eq!(permits.release(), Released::Owed);
        assert_eq!(counts(&permits), (1, 0, 1));
    }

    #[test]
    fn permits_of_a_greater_maximum_are_owed_to_waiters() {
        let permits = Permits::new(1);
        assert!(permits.take());
        assert!(!permits.enlist() && !permits.enlist() && !permits.enlist());
        assert_eq!(permits.set_maximum(3), 2);
        assert_eq!(counts(&permits), (3, 1, 3));
    }

    #[test]
    fn permits_beyond_the_maximum_are_freed_though_others_wait() {
        let permits = Permits::new(2);
        assert!(permits.take() && permits.take());
        assert!(!permits.enlist());
        assert_eq!(permits.set_maximum(1), 0);
        assert_eq!(permits.release(), Released::Freed(1));
        assert_eq!(permits.release(), Released::Owed);
        assert_eq!(counts(&permits), (1, 0, 1));
    }

    #[test]
    fn tickets_grow() {
        let permits = Permits::new(1);
        assert!(permits.ticket() < permits.ticket());
    }
}
