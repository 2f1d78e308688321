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
    /// Permits in all: the domain's own maximum, or the processors that it holds if that is less.
    pub maximum: u32,
    /// The domain's own maximum.
    pub own_maximum: u32,
    /// The processors that the domain holds by the activation server's count. 0 without a server.
    pub held: u32,
    /// Whether the domain goes by what it holds. If not, it goes by its own maximum alone.
    pub limited: bool,
}

const BITS: u32 = 16;
const MASK: u64 = (1 << BITS) - 1;
const LIMITED: u64 = 1 << 63;

impl Counts {
    #[inline]
    fn unpack(word: u64) -> Self {
        let part = |n: u32| (word >> (n * BITS) & MASK) as u32;
        let limited = word & LIMITED != 0;
        let counts = Self {
            running: part(0),
            waiting: part(1),
            maximum: 0,
            own_maximum: part(2),
            held: part(3) & (MASK as u32 >> 1),
            limited,
        };
        counts.with_maximum()
    }

    #[inline]
    fn with_maximum(self) -> Self {
        let maximum = if self.limited { self.own_maximum.min(self.held) } else { self.own_maximum };
        Self { maximum, ..self }
    }

    #[inline]
    fn pack(self) -> u64 {
        let parts = [self.running, self.waiting, self.own_maximum, self.held];
        let bits = parts.iter().rev().fold(0, |bits, &part| bits << BITS | u64::from(part));
        if self.limited { bits | LIMITED } else { bits }
    }

    /// Takes as many permits for waiters as are free. Returns how many: the caller has to grant
    /// them.
    fn owe(&mut self) -> u32 {
        *self = self.with_maximum();
        let owed = self.waiting.min(self.maximum.saturating_sub(self.running));
        self.running += owed;
        self.waiting -= owed;
        owed
    }

    /// Whether a permit is free.
    pub fn free(self) -> bool {
        self.running < self.maximum
    }

    /// Whether all that the domain holds is in use, and it could use more.
    #[inline]
    pub fn is_short(self) -> bool {
        self.limited && self.running >= self.held && self.held < self.own_maximum
    }
}

/// The most processors that the word has room for.
const MOST_HELD: u32 = (1 << (BITS - 1)) - 1;

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
        let counts =
            Counts { running: 0, waiting: 0, maximum, own_maximum: maximum, held: 0, limited: false };
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

    /// Sets the domain's own maximum. Returns how many permits the caller has to grant.
    pub fn set_maximum(&self, maximum: u32) -> u32 {
        self.step(|counts| {
            counts.own_maximum = maximum;
            Some(counts.owe())
        })
        .unwrap_or(0)
    }

    /// Says whether the domain goes by what it holds, and with how many processors it begins.
    /// Returns how many permits the caller has to grant.
    pub fn set_limited(&self, limited: bool, held: Option<u32>) -> u32 {
        self.step(|counts| {
            counts.limited = limited;
            counts.held = held.unwrap_or(counts.held).min(MOST_HELD);
            Some(counts.owe())
        })
        .unwrap_or(0)
    }

    /// The domain has come to one more processor. Returns how many permits the caller has to grant.
    pub fn add_held(&self) -> u32 {
        self.step(|counts| {
            counts.held = (counts.held + 1).min(MOST_HELD);
            Some(counts.owe())
        })
        .unwrap_or(0)
    }

    /// Takes an idle processor out of those that the domain holds, to give it away. Returns `false`
    /// if none is idle.
    pub fn take_idle(&self) -> bool {
        self.step(|counts| (counts.running < counts.held).then(|| counts.held -= 1)).is_some()
    }

    /// Takes the processor of the permit that the caller has in hand out of those that the domain
    /// holds, to lend it. Returns `false` if an activation waits for it, or the domain does not go
    /// by what it holds; then the caller still has the permit.
    pub fn take_in_hand(&self) -> bool {
        self.step(|counts| {
            let spare = counts.running > 0 && counts.running <= counts.held;
            let can = counts.limited && counts.waiting == 0 && spare;
            can.then(|| {
                counts.running -= 1;
                counts.held -= 1;
            })
        })
        .is_some()
    }

    /// Gives the caller one more processor and a permit in hand for it.
    pub fn put_in_hand(&self) {
        let _ = self.step(|counts| {
            counts.running += 1;
            counts.held = (counts.held + 1).min(MOST_HELD);
            Some(())
        });
    }

    /// The domain is to give up one more processor, though it may be in use. Returns `false` if it
    /// holds none.
    pub fn owe_held(&self) -> bool {
        self.step(|counts| (counts.held > 0).then(|| counts.held -= 1)).is_some()
    }
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    fn counts(permits: &Permits) -> (u32, u32, u32) {
        let Counts { running, waiting, maximum, .. } = permits.counts();
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
    fn a_domain_runs_on_what_it_holds_if_that_is_less() {
        let permits = Permits::new(2);
        assert!(permits.take() && permits.take());
        assert_eq!(permits.set_limited(true, Some(1)), 0);
        assert_eq!(counts(&permits), (2, 0, 1));
        assert!(!permits.enlist() && permits.counts().is_short());
        assert_eq!(permits.release(), Released::Freed(1));
        assert_eq!(permits.add_held(), 1, "the one that waits");
        assert!(!permits.counts().is_short(), "it has all that it may use");
        assert_eq!(counts(&permits), (2, 0, 2));
        assert_eq!(permits.add_held(), 0);
        assert_eq!(counts(&permits), (2, 0, 2), "its own maximum is less");
        assert_eq!(permits.counts().held, 3);
        assert_eq!(permits.set_limited(false, None), 0);
        assert_eq!((permits.counts().held, permits.counts().maximum), (3, 2));
    }

    #[test]
    fn only_an_idle_processor_is_taken_to_be_given_away() {
        let permits = Permits::new(2);
        assert!(!permits.take_idle(), "it holds none");
        permits.set_limited(true, Some(2));
        assert!(permits.take());
        assert!(permits.take_idle() && !permits.take_idle());
        assert_eq!(counts(&permits), (1, 0, 1));
        assert!(permits.take_in_hand(), "the one in use");
        assert_eq!((counts(&permits), permits.counts().held), ((0, 0, 0), 0));
        assert!(!permits.take() && !permits.owe_held());
    }

    #[test]
    fn a_processor_that_an_activation_waits_for_is_not_lent() {
        let permits = Permits::new(1);
        permits.set_limited(true, Some(1));
        assert!(permits.take() && !permits.enlist());
        assert!(!permits.take_in_hand() && !permits.take_idle());
        assert!(permits.owe_held());
        assert_eq!(counts(&permits), (1, 1, 0));
        assert_eq!(permits.release(), Released::Freed(0), "it is not passed on");
        assert_eq!(permits.add_held(), 1);
    }

    #[test]
    fn tickets_grow() {
        let permits = Permits::new(1);
        assert!(permits.ticket() < permits.ticket());
    }
}
