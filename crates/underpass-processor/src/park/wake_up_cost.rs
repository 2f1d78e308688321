//! What a wake-up across CPUs costs: an estimate that follows the wake-ups which this domain has
//! measured.

use std::sync::atomic::{AtomicU64, Ordering};

/// The estimate, in ns: about the median of the wake-ups that this domain has measured. It starts
/// at the median of the machines on which we measured.
static WAKE_UP: AtomicU64 = AtomicU64::new(60_000);

/// The bounds of the estimate, in ns. The lower one is a wake-up on the same CPU; the upper one is
/// a wake-up on a busy machine.
pub(crate) const BOUNDS: (u64, u64) = (3_000, 200_000);

/// One measured wake-up moves the estimate by this fraction, an eighth of it.
const STEP: u64 = 8;

/// What a wake-up costs by the estimate, in ns. Idle processors poll for this long by rule (URPC,
/// section 4.4).
pub(crate) fn wake_up_cost() -> u64 {
    // Relaxed, here and wherever it is written: an estimate.
    WAKE_UP.load(Ordering::Relaxed)
}

/// Records a wake-up that took `ns` from the unpark until the sleeper ran.
pub(crate) fn record_wake_up(ns: u64) {
    WAKE_UP.store(adjusted(wake_up_cost(), ns), Ordering::Relaxed);
}

/// The estimate after one more wake-up, which took `ns`.
fn adjusted(estimate: u64, ns: u64) -> u64 {
    let step = estimate / STEP;
    let adjusted = if ns > estimate { estimate + step } else { estimate - step };
    adjusted.clamp(BOUNDS.0, BOUNDS.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_follows_what_is_seen() {
        let after = |seen: u64| (0..100).fold(50_000, |estimate, _| adjusted(estimate, seen));
        assert_eq!(after(0), BOUNDS.0);
        assert_eq!(after(u64::MAX), BOUNDS.1);
        assert!((20_000..30_000).contains(&after(24_000)), "it stays near a constant cost");
    }
}
