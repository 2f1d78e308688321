//! Which registration a domain has, and which of its threads act for that.
//!
//! A thread that moves processors changes the page and what the domain holds, one after the other.
//! Between the two steps the registration must not end: what belongs to it would be put back into
//! the next one. So the end waits for the threads that are inside. They wait for nobody.

use std::num::NonZeroU64;
use underpass_seam::atomic::{AtomicU32, AtomicU64, Ordering};

/// The registration of a domain, as a number, and how many threads act for it.
#[derive(Debug)]
pub struct RegistrationGate {
    /// 0 without a registration.
    registration: AtomicU64,
    inside: AtomicU32,
}

/// A thread that acts for the registration. It lasts until this is dropped.
#[derive(Debug)]
pub struct GatePass<'a> {
    gate: &'a RegistrationGate,
    registration: NonZeroU64,
}

impl Default for RegistrationGate {
    fn default() -> Self {
        Self { registration: AtomicU64::new(0), inside: AtomicU32::new(0) }
    }
}

impl RegistrationGate {
    /// The registration now, for a thread that only reads.
    #[inline]
    pub fn registration(&self) -> Option<NonZeroU64> {
        // SYNC with `registration` store in `open`: what belongs to the registration.
        NonZeroU64::new(self.registration.load(Ordering::Acquire))
    }

    /// Acts for the registration, if there is one.
    pub fn enter(&self) -> Option<GatePass<'_>> {
        self.registration()?;
        // SYNC with `inside` fetch_add of 0 in `close`. Both are read-modify-writes of one word. If
        // this one is later, it reads from that one, and so sees the registration gone.
        self.inside.fetch_add(1, Ordering::AcqRel);
        let Some(registration) = self.registration() else {
            self.leave();
            return None;
        };
        Some(GatePass { gate: self, registration })
    }

    /// The registration begins. There is none before.
    pub fn open(&self, registration: NonZeroU64) {
        // SYNC with `registration` load in `registration`.
        self.registration.store(registration.get(), Ordering::Release);
    }

    /// The registration ends. On return nobody acts for it. Calls `wait` while somebody does.
    pub fn close(&self, wait: impl Fn()) {
        // Relaxed: the read-modify-write below releases it.
        self.registration.store(0, Ordering::Relaxed);
        // SYNC with `inside` fetch_add in `enter` and fetch_sub in `leave`: what was done inside.
        while self.inside.fetch_add(0, Ordering::AcqRel) != 0 {
            wait();
        }
    }

    fn leave(&self) {
        // SYNC with `inside` fetch_add in `close`: what was done inside.
        self.inside.fetch_sub(1, Ordering::Release);
    }
}

impl GatePass<'_> {
    /// The registration that it acts for.
    pub fn registration(&self) -> NonZeroU64 {
        self.registration
    }
}

impl Drop for GatePass<'_> {
    fn drop(&mut self) {
        self.gate.leave();
    }
}
