//! A gate at which one thread waits and which another opens.

use crate::atomic::{AtomicPtr, Ordering};
use std::marker::PhantomData;
use std::ptr;

/// Shut, open, or shut with one waiter at it. The thread that opens the gate is given the waiter
/// and has to tell it. Exactly one of [`open`](Self::open) and [`withdraw`](Self::withdraw) takes a
/// waiter away, so each wait ends once.
///
/// `to` is written by the waiter (shut to waiter, and back) and by the thread that opens. The
/// thread that shuts writes it too, while neither of these may.
///
/// # Examples
/// ```
/// let gate = underpass_seam::Gate::new();
/// assert!(gate.register(&7));
/// assert_eq!(gate.open(), Some(&7));
/// assert!(gate.is_open() && !gate.register(&8));
/// ```
#[derive(Debug)]
pub struct Gate<T: 'static> {
    to: AtomicPtr<T>,
    what: PhantomData<&'static T>,
}

impl<T> Default for Gate<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The mark of an open gate. No waiter has this address: either `T` is aligned to more than one
/// byte, or no object lies at address 1.
fn opened<T>() -> *mut T {
    ptr::without_provenance_mut(1)
}

impl<T> Gate<T> {
    /// A shut gate.
    pub fn new() -> Self {
        Self { to: AtomicPtr::new(ptr::null_mut()), what: PhantomData }
    }

    /// Whether it is open.
    #[inline]
    pub fn is_open(&self) -> bool {
        // SYNC with `to` swap in `open`: what the opening thread did before.
        self.to.load(Ordering::Acquire) == opened()
    }

    /// Whether `waiter` waits at the gate: a hint, unless only the caller changes that.
    #[inline]
    pub fn is_registered(&self, waiter: &'static T) -> bool {
        // SYNC with `to` compare_exchange in `register`: what the waiter did before.
        ptr::eq(self.to.load(Ordering::Acquire), waiter)
    }

    /// Waits at the gate; `false` if it is open.
    ///
    /// # Panics
    /// If another waiter is there.
    #[inline]
    pub fn register(&self, waiter: &'static T) -> bool {
        let to = ptr::from_ref(waiter).cast_mut();
        // SYNC with `to` swap in `open`: what `waiter` refers to; or what the opening thread did
        // before.
        match self.to.compare_exchange(ptr::null_mut(), to, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(found) => {
                assert!(found == opened(), "two threads wait at one gate");
                false
            }
        }
    }

    /// Stops waiting. `false` if a thread has opened the gate, has taken `waiter`, and is about to
    /// tell it.
    #[inline]
    pub fn withdraw(&self, waiter: &'static T) -> bool {
        let to = ptr::from_ref(waiter).cast_mut();
        // SYNC with `to` swap in `open`, if that came first: what the opening thread did before.
        self.to.compare_exchange(to, ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Opens the gate, and returns its waiter, which the caller has to tell.
    #[inline]
    pub fn open(&self) -> Option<&'static T> {
        // SYNC with `to` load in `is_open` and compare_exchange in `register`: what this thread did
        // before.
        let to = self.to.swap(opened(), Ordering::AcqRel);
        if to == opened() {
            return None;
        }
        // SAFETY: neither shut (null) nor open: it came from a `&'static T` in `register`.
        unsafe { to.as_ref() }
    }

    /// Shuts the gate for a new wait. Only while no other thread may open it or wait at it.
    #[inline]
    pub fn shut(&self) {
        // Relaxed: whatever tells an opener of the new wait synchronizes.
        self.to.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Shuts an open gate, and returns whether it was open. Others may open it at the same time.
    /// Only for the thread that may wait at it.
    #[inline]
    pub fn pass(&self) -> bool {
        // SYNC with `to` swap in `open`: what the thread did before the opening that this takes.
        self.to.compare_exchange(opened(), ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_is_taken_away_once() {
        let gate = Gate::new();
        assert!(gate.register(&1));
        assert!(gate.withdraw(&1) && !gate.withdraw(&1));
        assert!(gate.register(&1));
        assert_eq!(gate.open(), Some(&1));
        assert!(!gate.withdraw(&1));
        assert_eq!(gate.open(), None);
    }

    #[test]
    fn an_opening_can_be_passed_once() {
        let gate = Gate::<u32>::new();
        assert!(!gate.pass());
        gate.open();
        assert!(gate.pass() && !gate.pass());
        gate.open();
        gate.shut();
        assert!(!gate.is_open());
    }
}
