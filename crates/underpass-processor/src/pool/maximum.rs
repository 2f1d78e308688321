//! How many processors this domain may use.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use underpass_os::{cpu, quota};

/// What the program asked for.
static CONFIGURED: AtomicU32 = AtomicU32::new(NOTHING);
const NOTHING: u32 = u32::MAX;

/// Sets the number for which the program asks.
pub(crate) fn configure(processors: u32) {
    // Relaxed, here and below: a number that orders nothing.
    CONFIGURED.store(processors.min(NOTHING - 1), Ordering::Relaxed);
}

/// The number that the program or its environment asks for.
fn asked_for() -> Option<usize> {
    static SET: OnceLock<Option<usize>> = OnceLock::new();
    let set = || std::env::var("UNDERPASS_PROCESSORS").ok()?.parse().ok();
    match CONFIGURED.load(Ordering::Relaxed) {
        NOTHING => *SET.get_or_init(set),
        n => Some(n as usize),
    }
}

/// Whether this domain serves calls on donated processors only.
pub(crate) fn donated_only() -> bool {
    asked_for() == Some(0)
}

/// Whether the number may change without the program asking for it.
pub(crate) fn varies() -> bool {
    asked_for().is_none()
}

/// The CPUs in the affinity of the calling kernel thread.
pub(crate) fn cpus() -> usize {
    cpu::allowed().map_or(1, |cpus| cpus.len()).max(1)
}

/// The number asked for, or the CPUs, or what the control groups grant if that is less.
pub(crate) fn wanted() -> usize {
    // Threads that no call runs need one processor.
    asked_for().map(|n| n.max(1)).unwrap_or_else(|| cpus().min(quota::processors().unwrap_or(usize::MAX)))
}
