//! A lock that names its holder.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use underpass_threads::{Awaited, Control, Wait, Woken, me, suspend};

/// A lock that names its holder, and is handed to the thread that has waited longest.
#[derive(Default)]
pub struct Lock {
    holder: AtomicU64,
    waiters: Mutex<VecDeque<&'static Control>>,
}

impl Lock {
    pub fn lock(&self) {
        assert!(self.lock_until(None), "without a deadline it is got");
    }

    /// Takes it. Returns whether that succeeded before the deadline, in ns of
    /// `underpass_os::clock`.
    pub fn lock_until(&self, deadline_ns: Option<u64>) -> bool {
        let me = me();
        let mut waiters = self.waiters.lock().unwrap();
        if self.holder.load(Ordering::Relaxed) == 0 {
            self.holder.store(me.id(), Ordering::Relaxed);
            return true;
        }
        waiters.push_back(me);
        drop(waiters);
        // SAFETY: the thread is in the list. Only `unlock` or `abandon` takes it out.
        let woken = unsafe { suspend(me, self, deadline_ns, false) };
        woken == Woken::Woken
    }

    pub fn unlock(&self) {
        let mut waiters = self.waiters.lock().unwrap();
        let next = waiters.pop_front();
        self.holder.store(next.map_or(0, Control::id), Ordering::Relaxed);
        drop(waiters);
        if let Some(next) = next {
            // SAFETY: the thread was in the list until now.
            unsafe { next.wake() };
        }
    }
}

impl Wait for Lock {
    fn abandon(&self, thread: &'static Control) -> bool {
        let mut waiters = self.waiters.lock().unwrap();
        let place = waiters.iter().position(|waiter| std::ptr::eq(*waiter, thread));
        place.map(|place| waiters.remove(place)).is_some()
    }

    fn describe(&self) -> Awaited {
        let holder = Some(self.holder.load(Ordering::Relaxed)).filter(|&holder| holder != 0);
        Awaited { kind: "a test's lock", address: std::ptr::from_ref(self).addr(), holder }
    }
}
