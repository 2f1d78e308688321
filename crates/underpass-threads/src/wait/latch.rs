//! A wait for one thing by one thread.

use crate::block::control::Control;
use crate::block::suspension::{Awaited, Wait};
use crate::wait::wait_on::Opens;
use underpass_seam::Gate;

/// Something that one thread waits for and another opens: the end of a thread, the reply to a call.
#[derive(Debug, Default)]
pub struct Latch {
    gate: Gate<Control>,
}

impl Latch {
    /// Shuts it, for a new wait. Only while nobody else may open it or wait for it.
    #[inline]
    pub fn shut(&self) {
        self.gate.shut();
    }

    /// Opens it, and wakes who waits.
    #[inline]
    pub fn open(&self) {
        if let Some(waiter) = self.gate.open() {
            // SAFETY: the gate gives each waiter out once, to who opens it or who abandons the
            // wait.
            unsafe { waiter.wake() };
        }
    }

    /// Whether it is open.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.gate.is_open()
    }
}

// SAFETY: the gate gives each waiter out once, to who opens it or who abandons the wait.
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
    fn abandon(&self, who: &'static Control) -> bool {
        self.gate.withdraw(who)
    }

    fn describe(&self) -> Awaited {
        Awaited { kind: "an answer", address: std::ptr::from_ref(self).addr(), holder: None }
    }
}
