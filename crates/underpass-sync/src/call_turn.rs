//! Which caller may use the slot of an async call.

use underpass_seam::atomic::{AtomicU64, Ordering};

/// The call has its slot.
const IN_SLOT: u64 = 0;
/// The call has ended.
const ENDED: u64 = u64::MAX;

/// Whether an async call has its slot still, has given it back under a number, or has ended.
///
/// Two threads meet here: the sweep, which gives the slot back, and the thread that ends the call.
/// Exactly one of them uses the slot afterwards: S2 and E1 in
/// `underpass-rpc/src/dispatch/late/README.md`.
#[derive(Debug)]
pub struct CallTurn(AtomicU64);

impl Default for CallTurn {
    fn default() -> Self {
        Self(AtomicU64::new(IN_SLOT))
    }
}

impl CallTurn {
    /// *S2:* the call gives its slot back, and is known as `number` from now on. Returns `false` if
    /// it has ended.
    pub fn goes_late(&self, number: u64) -> bool {
        // SYNC with the swap in `ends`: what was entered under `number` before.
        self.0.compare_exchange(IN_SLOT, number, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// *E1:* the call ends. Returns its number if it has given its slot back; else the slot is the
    /// caller's to answer.
    pub fn ends(&self) -> Option<u64> {
        // SYNC with the exchange in `goes_late`.
        let before = self.0.swap(ENDED, Ordering::AcqRel);
        (before != IN_SLOT && before != ENDED).then_some(before)
    }

    /// Whether the call has given its slot back, and has not ended.
    pub fn is_late(&self) -> bool {
        // Relaxed: a hint.
        !matches!(self.0.load(Ordering::Relaxed), IN_SLOT | ENDED)
    }
}

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_call_ends_in_its_slot_or_under_its_number() {
        let turn = CallTurn::default();
        assert_eq!((turn.is_late(), turn.ends(), turn.goes_late(7)), (false, None, false));
        let turn = CallTurn::default();
        assert!(turn.goes_late(7) && turn.is_late() && !turn.goes_late(8));
        assert_eq!((turn.ends(), turn.is_late(), turn.ends()), (Some(7), false, None));
    }
}
