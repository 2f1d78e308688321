//! Counters of what the processors of this domain did.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of how often a domain entered the kernel, and why. All are on slow paths, so they are
/// plain shared counters.
#[derive(Debug, Default)]
pub struct Metrics {
    kernel_entries: AtomicU64,
    sleeps: AtomicU64,
    wakeups: AtomicU64,
    preemptions: AtomicU64,
    compensations: AtomicU64,
    started: AtomicU64,
    donations: AtomicU64,
    loans: AtomicU64,
    returns: AtomicU64,
    activated: AtomicU64,
    spins: [AtomicU64; 2],
}

static METRICS: Metrics = Metrics {
    kernel_entries: AtomicU64::new(0),
    sleeps: AtomicU64::new(0),
    wakeups: AtomicU64::new(0),
    preemptions: AtomicU64::new(0),
    compensations: AtomicU64::new(0),
    started: AtomicU64::new(0),
    donations: AtomicU64::new(0),
    loans: AtomicU64::new(0),
    returns: AtomicU64::new(0),
    activated: AtomicU64::new(0),
    spins: [const { AtomicU64::new(0) }; 2],
};

/// The counters of this domain.
pub fn metrics() -> &'static Metrics {
    &METRICS
}

// Relaxed throughout: these are statistics.
impl Metrics {
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

    /// Counts an activation that gave its processor up because it was asked to.
    pub fn preempted(&self) {
        self.preemptions.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a permit that was taken from an activation which blocked unannounced.
    pub fn compensated(&self) {
        self.compensations.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an activation started.
    pub fn started(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a processor donated to another domain.
    pub fn donated(&self) {
        self.donations.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a processor that another domain has donated.
    pub fn borrowed(&self) {
        self.loans.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a donated processor that was returned.
    pub fn returned(&self) {
        self.returns.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a spin of more than a batch of polls. `paid`: it found something.
    pub fn spun(&self, paid: bool) {
        self.spins[usize::from(paid)].fetch_add(1, Ordering::Relaxed);
    }

    /// Spins that found something so far.
    pub fn spins_paid(&self) -> u64 {
        self.spins[1].load(Ordering::Relaxed)
    }

    /// Spins that found nothing so far.
    pub fn spins_in_vain(&self) -> u64 {
        self.spins[0].load(Ordering::Relaxed)
    }

    /// Counts a dormant line that became active.
    pub fn activated(&self) {
        self.activated.fetch_add(1, Ordering::Relaxed);
    }

    /// Dormant lines that became active so far.
    pub fn revivals(&self) -> u64 {
        self.activated.load(Ordering::Relaxed)
    }

    /// Processors donated to other domains so far.
    pub fn donations(&self) -> u64 {
        self.donations.load(Ordering::Relaxed)
    }

    /// Processors that other domains have donated so far.
    pub fn loans(&self) -> u64 {
        self.loans.load(Ordering::Relaxed)
    }

    /// Donated processors that were returned so far.
    pub fn returns(&self) -> u64 {
        self.returns.load(Ordering::Relaxed)
    }

    /// How often an activation gave its processor up because it was asked to, so far.
    pub fn preemptions(&self) -> u64 {
        self.preemptions.load(Ordering::Relaxed)
    }

    /// How often unannounced blocking was found, and the permit given to others, so far.
    pub fn compensations(&self) -> u64 {
        self.compensations.load(Ordering::Relaxed)
    }

    /// Activations started so far.
    pub fn activations(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
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
