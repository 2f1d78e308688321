//! Callers that wait for a slot, first come, first served.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use underpass_processor::Line;
use underpass_seam::atomic::{AtomicU32, Ordering};
use underpass_threads::{Latch, wait_on};

/// Waiters for what others give back.
///
/// No give-back is missed: a waiter enters (`waiting`, SeqCst) before it tries; who gives back does so (SeqCst) before it
/// looks at `waiting` (SeqCst). In their one order either the try finds the thing, or the look finds the waiter.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: AtomicU32,
    latches: Mutex<VecDeque<Arc<Latch>>>,
}

impl Queue {
    /// Tries until `attempt` gives something; nothing if `deadline` passes first. Polls `line` meanwhile.
    pub(crate) fn wait<T>(
        &self,
        deadline: Option<u64>,
        line: &dyn Line,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        loop {
            let latch = Arc::new(Latch::default());
            self.latches.lock().unwrap_or_else(PoisonError::into_inner).push_back(latch.clone());
            self.waiting.fetch_add(1, Ordering::SeqCst);
            if let Some(got) = attempt() {
                self.leave(&latch);
                return Some(got);
            }
            if !wait_on(&*latch, Some(line), deadline) {
                self.leave(&latch);
                return None;
            }
            if let Some(got) = attempt() {
                return Some(got);
            }
        }
    }

    /// A waiter goes without having been called; if it was called all the same, the call is passed on.
    fn leave(&self, latch: &Arc<Latch>) {
        let mut latches = self.latches.lock().unwrap_or_else(PoisonError::into_inner);
        match latches.iter().position(|other| Arc::ptr_eq(other, latch)) {
            Some(place) => {
                latches.remove(place);
                self.waiting.fetch_sub(1, Ordering::SeqCst);
            }
            None => {
                drop(latches);
                self.next();
            }
        }
    }

    /// Something was given back: calls the first waiter.
    #[inline]
    pub(crate) fn next(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.call_one();
        }
    }

    #[cold]
    fn call_one(&self) -> bool {
        let first = self.latches.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        if let Some(latch) = &first {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            latch.open();
        }
        first.is_some()
    }

    /// Calls every waiter.
    pub(crate) fn all(&self) {
        while self.call_one() {}
    }
}
