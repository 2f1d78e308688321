//! How many processors this domain may use.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use underpass_os::{cpu, quota};

/// What the program asked for; 0 if nothing.
static CONFIGURED: AtomicU32 = AtomicU32::new(0);

/// The program asks for this many; for none in particular if 0.
pub(crate) fn configure(processors: u32) {
    // Relaxed, here and below: a number by itself.
    CONFIGURED.store(processors, Ordering::Relaxed);
}

/// The number that the program or its environment asks for.
fn asked_for() -> Option<usize> {
    static SET: OnceLock<Option<usize>> = OnceLock::new();
    let set = || std::env::var("UNDERPASS_PROCESSORS").ok()?.parse().ok().filter(|&n| n > 0);
    match CONFIGURED.load(Ordering::Relaxed) {
        0 => *SET.get_or_init(set),
        n => Some(n as usize),
    }
}

/// Whether the number may change by itself.
pub(crate) fn varies() -> bool {
    asked_for().is_none()
}

/// The CPUs in the affinity of the calling kernel thread.
pub(crate) fn cpus() -> usize {
    cpu::allowed().map_or(1, |cpus| cpus.len()).max(1)
}

/// The number asked for, else the CPUs, or what the control groups grant if that is less.
pub(crate) fn wanted() -> usize {
    asked_for().unwrap_or_else(|| cpus().min(quota::processors().unwrap_or(usize::MAX)))
}
