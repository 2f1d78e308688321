//! An atomic slot for a reference that other threads pick up.

use crate::atomic::{AtomicPtr, Ordering};
use std::marker::PhantomData;
use std::ptr;

/// Holds a `&'static T` or nothing, and changes atomically.
///
/// # Examples
/// ```
/// let slot = underpass_seam::StaticSlot::new();
/// slot.set(&7);
/// assert_eq!(slot.get(), Some(&7));
/// ```
#[derive(Debug)]
pub struct StaticSlot<T: 'static> {
    to: AtomicPtr<T>,
    what: PhantomData<&'static T>,
}

impl<T> Default for StaticSlot<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> StaticSlot<T> {
    /// An empty slot.
    pub fn new() -> Self {
        Self { to: AtomicPtr::new(ptr::null_mut()), what: PhantomData }
    }

    /// Puts `value` into the slot.
    #[inline]
    pub fn set(&self, value: &'static T) {
        // SYNC with `to` load in `get`: what `value` refers to.
        self.to.store(ptr::from_ref(value).cast_mut(), Ordering::Release);
    }

    /// Puts `value`, or nothing, into the slot. Returns what was there.
    #[inline]
    pub fn swap(&self, value: Option<&'static T>) -> Option<&'static T> {
        let to = value.map_or(ptr::null_mut(), |value| ptr::from_ref(value).cast_mut());
        // SYNC with `to` in `set`, `swap`, `exchange`: what the values refer to.
        let was = self.to.swap(to, Ordering::AcqRel);
        // SAFETY: null, or from a `&'static T`.
        unsafe { was.as_ref() }
    }

    /// Puts `value` into the slot if `expected` is there.
    ///
    /// # Errors
    /// What is there instead of `expected`.
    #[inline]
    pub fn exchange(
        &self,
        expected: Option<&'static T>,
        value: &'static T,
    ) -> Result<(), Option<&'static T>> {
        let expected = expected.map_or(ptr::null_mut(), |value| ptr::from_ref(value).cast_mut());
        let to = ptr::from_ref(value).cast_mut();
        // SYNC with `to` in `get`, `swap`: what `value` refers to.
        match self.to.compare_exchange(expected, to, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            // SAFETY: null, or from a `&'static T`.
            Err(was) => Err(unsafe { was.as_ref() }),
        }
    }

    /// Empties the slot.
    #[inline]
    pub fn clear(&self) {
        // Relaxed: there is nothing to make visible.
        self.to.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Whether the slot is empty: a hint, without an access to the value.
    #[inline]
    pub fn is_clear(&self) -> bool {
        // Relaxed: a caller that acts on it looks again.
        self.to.load(Ordering::Relaxed).is_null()
    }

    /// What was put into the slot last.
    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        // SYNC with `to` in `set`, `swap`, `exchange`: what the value refers to.
        let to = self.to.load(Ordering::Acquire);
        // SAFETY: `to` is null or came from a `&'static T` in `set`.
        unsafe { to.as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_was_set_last() {
        let slot = StaticSlot::new();
        assert_eq!(slot.get(), None);
        slot.set(&1);
        slot.set(&2);
        assert_eq!(slot.get(), Some(&2));
    }
}
