//! What a pinned domain is to have, and what its processes are pinned to.

use underpass_seam::atomic::{AtomicU64, Ordering};

/// The two counts, in one word.
#[derive(Debug)]
pub struct PinnedWord(AtomicU64);

/// What the surveyor does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinStep {
    /// The processes are pinned to what they are to have.
    Nothing,
    /// W2: pin them to so many CPUs, which are counted already.
    Widen(u32),
    /// N2: pin them to so few, then call [`PinnedWord::narrowed`].
    Narrow(u32),
}

fn pack(target: u32, applied: u32) -> u64 {
    u64::from(target) | u64::from(applied) << 32
}

fn unpack(bits: u64) -> (u32, u32) {
    (bits as u32, (bits >> 32) as u32)
}

impl PinnedWord {
    /// A domain that has nothing.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn change(&self, what: impl Fn(u32, u32) -> Option<(u32, u32)>) -> Option<(u32, u32)> {
        // Relaxed: the exchange compares.
        let mut bits = self.0.load(Ordering::Relaxed);
        loop {
            let (target, applied) = unpack(bits);
            let (target, applied) = what(target, applied)?;
            // SYNC with the load in `holds`, and with the exchange of the other thread: N2 is
            // before N3, so a processor that is counted as given back is in use no more.
            let next = pack(target, applied);
            match self.0.compare_exchange_weak(bits, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some((target, applied)),
                Err(other) => bits = other,
            }
        }
    }

    /// Grant, by the main thread.
    pub fn grant(&self) {
        self.change(|target, applied| Some((target + 1, applied)));
    }

    /// Ask, by the main thread. Returns `false` if the domain is to have nothing already.
    pub fn ask(&self) -> bool {
        self.change(|target, applied| Some((target.checked_sub(1)?, applied))).is_some()
    }

    /// The domain keeps so many at the most, by the main thread. Returns whether that changes
    /// anything.
    pub fn keep(&self, most: u32) -> bool {
        self.change(|target, applied| (target > most).then_some((most, applied))).is_some()
    }

    /// What the domain is to have.
    pub fn target(&self) -> u32 {
        unpack(self.0.load(Ordering::Acquire)).0
    }

    /// What the domain holds.
    pub fn holds(&self) -> u32 {
        // SYNC with the exchanges in `change`.
        let (target, applied) = unpack(self.0.load(Ordering::Acquire));
        target.max(applied)
    }

    /// W1 or N1, by the surveyor.
    pub fn next_step(&self) -> PinStep {
        let widened = self.change(|target, applied| (target > applied).then_some((target, target)));
        if let Some((target, _)) = widened {
            return PinStep::Widen(target);
        }
        let (target, applied) = unpack(self.0.load(Ordering::Acquire));
        if target < applied { PinStep::Narrow(target) } else { PinStep::Nothing }
    }

    /// N3, by the surveyor: the processes are pinned to so few CPUs.
    pub fn narrowed(&self, to: u32) {
        self.change(|target, _| Some((target, to)));
    }
}

impl Default for PinnedWord {
    fn default() -> Self {
        Self::new()
    }
}
