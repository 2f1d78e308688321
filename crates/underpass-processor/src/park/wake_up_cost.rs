//! What a wake-up across CPUs costs, as an estimate that follows what was seen.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a wake-up across processors costs, in ns: about the median of those that this domain has
/// seen, from the median of the machines that we measured on.
static WAKE_UP: AtomicU64 = AtomicU64::new(60_000);

/// Between these, in ns: one on the same CPU, and one on a machine that does much else.
pub(crate) const SENSIBLE: (u64, u64) = (3_000, 200_000);

/// The least that counts of a wake-up by a peer, which may say what it likes, in ns: as quick as
/// the quickest that we measured. Who says less would have this domain sleep where others call.
const QUICK: u64 = 20_000;

/// One wake-up that was seen moves the estimate by such a part of it.
const STEP: u64 = 8;

/// Sets what a wake-up is thought to cost, in ns. What is seen of wake-ups moves it on.
pub fn set_wake_up_cost(ns: u64) {
    WAKE_UP.store(ns.clamp(SENSIBLE.0, SENSIBLE.1), Ordering::Relaxed);
}

/// What a wake-up is thought to cost, in ns: how long idle processors poll by rule (URPC, section
/// 4.4; DESIGN.md, section 7).
///
/// # Examples
/// ```
/// assert!(underpass_processor::wake_up_cost() >= 3_000);
/// ```
pub fn wake_up_cost() -> u64 {
    // Relaxed, here and wherever it is written: an estimate.
    WAKE_UP.load(Ordering::Relaxed)
}

/// A wake-up took so long, in ns, from the call to the called.
pub(crate) fn record_wake_up(ns: u64) {
    set_wake_up_cost(adjusted(wake_up_cost(), ns));
}

/// A wake-up by a peer took so long, in ns, as it says.
pub(crate) fn record_peer_wake_up(ns: u64) {
    record_wake_up(plausible(ns));
}

/// As much of that as counts.
fn plausible(ns: u64) -> u64 {
    ns.max(QUICK)
}

/// The estimate after one that took `ns`.
fn adjusted(estimate: u64, ns: u64) -> u64 {
    let step = estimate / STEP;
    let adjusted = if ns > estimate { estimate + step } else { estimate - step };
    adjusted.clamp(SENSIBLE.0, SENSIBLE.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_moves_the_estimate_within_its_bounds() {
        let told = |ns: u64| (0..100).fold(60_000, |estimate, _| adjusted(estimate, plausible(ns)));
        assert!((QUICK - QUICK / STEP..=QUICK + QUICK / STEP).contains(&told(0)));
        assert_eq!(told(u64::MAX), SENSIBLE.1);
    }

    #[test]
    fn the_estimate_follows_what_is_seen() {
        let after = |seen: u64| (0..100).fold(50_000, |estimate, _| adjusted(estimate, seen));
        assert_eq!(after(0), SENSIBLE.0);
        assert_eq!(after(u64::MAX), SENSIBLE.1);
        assert!((20_000..30_000).contains(&after(24_000)), "it stays near a constant cost");
    }
}
