//! A latch: one thread waits for it, and another opens it.

use crate::block::control::Control;
use crate::block::suspension::{Awaited, Wait};
use crate::wait::wait_on::Opens;
use underpass_seam::Gate;

/// A latch that one thread waits for and another opens. It stands for the end of a thread, or the
/// reply to a call.
#[derive(Debug, Default)]
pub struct Latch {
    gate: Gate<Control>,
}

impl Latch {
    /// Shuts the latch for a new wait. Call it only while nobody else may open it or wait for it.
    #[inline]
    pub fn shut(&self) {
        self.gate.shut();
    }

    /// Opens the latch, and wakes the waiter.
    #[inline]
    pub fn open(&self) {
        if let Some(waiter) = self.gate.open() {
            // SAFETY: the gate gives out each waiter once, to the opener or to `abandon`.
            unsafe { waiter.wake() };
        }
    }

    /// Whether the latch is open.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.gate.is_open()
    }
}

// SAFETY: the gate gives out each waiter once, to the opener or to `abandon`.
unsafe impl Opens for Latch {
    #[inline]
    fn is_open(&self) -> bool {
        self.gate.is_open()
    }

    #[inline]
    fn register(&self, me: &'static Control) -> bool {
        self.gate.register(me)
    }
}

impl Wait for Latch {
    fn abandon(&self, thread: &'static Control) -> bool {
        self.gate.withdraw(thread)
    }

    fn describe(&self) -> Awaited {
        Awaited { kind: "an answer", address: std::ptr::from_ref(self).addr(), holder: None }
    }
}
