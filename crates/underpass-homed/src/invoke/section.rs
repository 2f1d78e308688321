//! Critical sections, in which no interrupt is handled: the steps A, B, M and U of `README.md`.

use underpass_seam::atomic::{AtomicU64, Ordering};

/// The number of maskings.
const MASKINGS: u64 = (1 << 32) - 1;
const RUNNING: u64 = 1 << 62;
const PENDING: u64 = 1 << 63;

/// The section of one home: its maskings, and whether a handler runs or is wanted.
#[derive(Debug)]
pub(crate) struct InterruptSection(AtomicU64);

impl InterruptSection {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// M1. The caller waits while [`is_running`](Self::is_running).
    pub(crate) fn mask(&self) {
        // Relaxed: M2 orders what the last handler did.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// M2: whether a handler runs.
    pub(crate) fn is_running(&self) -> bool {
        // SYNC with the fetch_and in `arrive`: what the handler did.
        self.0.load(Ordering::Acquire) & RUNNING != 0
    }

    /// U1. Returns whether the caller has to re-raise.
    #[must_use]
    pub(crate) fn unmask(&self) -> bool {
        // SYNC with the exchange to `RUNNING` in `arrive`: what the critical section did.
        let before = self.0.fetch_sub(1, Ordering::Release);
        before & MASKINGS == 1 && before & PENDING != 0
    }

    /// A1 to A4, for interrupts that are queued. `serve_one` returns whether there was anything to
    /// serve.
    pub(crate) fn arrive(&self, mut serve_one: impl FnMut() -> bool) {
        while self.begin() {
            let served = serve_one();
            if !self.finish() && !served {
                return;
            }
        }
    }

    /// A1 and A2, B1 and B2. Returns whether a handler may run now. Otherwise it is noted that one
    /// is wanted.
    #[must_use]
    pub(crate) fn begin(&self) -> bool {
        // Relaxed: the exchanges order it.
        let mut found = self.0.load(Ordering::Relaxed);
        loop {
            let disabled = found & (RUNNING | MASKINGS) != 0;
            let (next, success) = match disabled {
                // SYNC with A2's exchange of the thread that takes the notice: the queue.
                true => (found | PENDING, Ordering::Release),
                // SYNC with the fetch_sub in `unmask`, the fetch_and in `finish` and the exchange
                // above: what a critical section and the last handler did, and the queue.
                false => (RUNNING, Ordering::Acquire),
            };
            match self.0.compare_exchange(found, next, success, Ordering::Relaxed) {
                Ok(_) => return !disabled,
                Err(other) => found = other,
            }
        }
    }

    /// A4, B4: the handler has run. Returns whether another one is wanted.
    #[must_use]
    pub(crate) fn finish(&self) -> bool {
        // SYNC with the load in `is_running` and the exchange in `begin`: what the handler did.
        self.0.fetch_and(!RUNNING, Ordering::Release) & PENDING != 0
    }

    /// B1: whether a handler is wanted that may not run yet.
    pub(crate) fn holds_back(&self) -> bool {
        // Relaxed: `begin` orders what comes next.
        let now = self.0.load(Ordering::Relaxed);
        now & PENDING != 0 && now & (RUNNING | MASKINGS) != 0
    }
}
