//! What the processors of this domain did, counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of a domain's dealings with the kernel. All on slow paths, hence plain shared counters.
#[derive(Debug, Default)]
pub struct Tally {
    kernel_entries: AtomicU64,
    sleeps: AtomicU64,
    wakeups: AtomicU64,
}

static TALLY: Tally =
    Tally { kernel_entries: AtomicU64::new(0), sleeps: AtomicU64::new(0), wakeups: AtomicU64::new(0) };

/// This domain's.
pub fn tally() -> &'static Tally {
    &TALLY
}

// Relaxed throughout: these are statistics.
impl Tally {
    /// Counts `n` system calls.
    pub fn entered_kernel(&self, n: u64) {
        self.kernel_entries.fetch_add(n, Ordering::Relaxed);
    }

    /// Counts a wake-up sent, which is a system call.
    pub fn woke(&self) {
        self.wakeups.fetch_add(1, Ordering::Relaxed);
        self.entered_kernel(1);
    }

    /// Counts a sleep, which is a system call.
    pub fn slept(&self) {
        self.sleeps.fetch_add(1, Ordering::Relaxed);
        self.entered_kernel(1);
    }

    /// System calls so far.
    pub fn kernel_entries(&self) -> u64 {
        self.kernel_entries.load(Ordering::Relaxed)
    }

    /// Sleeps so far.
    pub fn sleeps(&self) -> u64 {
        self.sleeps.load(Ordering::Relaxed)
    }

    /// Wake-ups sent so far.
    pub fn wakeups(&self) -> u64 {
        self.wakeups.load(Ordering::Relaxed)
    }
}
