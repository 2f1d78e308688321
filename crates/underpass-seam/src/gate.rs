//! A gate that one waits at and another opens.

use crate::atomic::{AtomicPtr, Ordering};
use std::marker::PhantomData;
use std::ptr;

/// Shut, open, or shut with one waiter at it. Who registers is told of the opening by whoever
/// opens: exactly one of [`open`](Self::open) and [`withdraw`](Self::withdraw) takes the waiter
/// away, so each wait ends once.
///
/// `to` is written by the waiter (shut to waiter, and back), by who opens, and, while nobody else
/// may do either, by who shuts.
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

/// No reference has this address: every `T` that waits is aligned to more than one byte, or has
/// another address.
fn opened<T>() -> *mut T {
    ptr::without_provenance_mut(1)
}

impl<T> Gate<T> {
    /// A shut one.
    pub fn new() -> Self {
        Self { to: AtomicPtr::new(ptr::null_mut()), what: PhantomData }
    }

    /// Whether it is open.
    #[inline]
    pub fn is_open(&self) -> bool {
        // SYNC with `to` swap in `open`: what was done before it.
        self.to.load(Ordering::Acquire) == opened()
    }

    /// Whether `waiter` waits at it: a hint, unless only the caller changes that.
    #[inline]
    pub fn is_registered(&self, waiter: &'static T) -> bool {
        // SYNC with `to` compare_exchange in `register`: what the waiter did before.
        ptr::eq(self.to.load(Ordering::Acquire), waiter)
    }

    /// Waits at it; `false` if it is open.
    ///
    /// # Panics
    /// If another waits there.
    #[inline]
    pub fn register(&self, waiter: &'static T) -> bool {
        let to = ptr::from_ref(waiter).cast_mut();
        // SYNC with `to` swap in `open`: what `waiter` refers to, or what was done before the
        // opening.
        match self.to.compare_exchange(ptr::null_mut(), to, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(found) => {
                assert!(found == opened(), "two threads wait for one thing that only one can have");
                false
            }
        }
    }

    /// Waits no more; `false` if who opened it has seen `waiter` and is about to tell it.
    #[inline]
    pub fn withdraw(&self, waiter: &'static T) -> bool {
        let to = ptr::from_ref(waiter).cast_mut();
        // SYNC with `to` swap in `open`, where it came first: what was done before it.
        self.to.compare_exchange(to, ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Opens it, and gives who waited: the caller has to tell that one.
    #[inline]
    pub fn open(&self) -> Option<&'static T> {
        // SYNC with `to` load in `is_open` and compare_exchange in `register`: what was done
        // before.
        let to = self.to.swap(opened(), Ordering::AcqRel);
        if to == opened() {
            return None;
        }
        // SAFETY: neither shut (null) nor open: it came from a `&'static T` in `register`.
        unsafe { to.as_ref() }
    }

    /// Shuts it, for a new wait. Only while nobody else may open it or wait at it.
    #[inline]
    pub fn shut(&self) {
        // Relaxed: what makes an opener know of the new wait synchronizes.
        self.to.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Shuts it, whoever may open it again at the same time; says whether it was open. Only by who
    /// may wait at it.
    #[inline]
    pub fn pass(&self) -> bool {
        // SYNC with `to` swap in `open`: what was done before the opening that this takes.
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
