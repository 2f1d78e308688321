//! A place for a reference that others pick up.

use crate::atomic::{AtomicPtr, Ordering};
use std::marker::PhantomData;
use std::ptr;

/// Holds a `&'static T` or nothing, atomically.
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
    /// An empty one.
    pub fn new() -> Self {
        Self { to: AtomicPtr::new(ptr::null_mut()), what: PhantomData }
    }

    /// Puts `value` there.
    #[inline]
    pub fn set(&self, value: &'static T) {
        // SYNC with `to` load in `get`: what `value` refers to.
        self.to.store(ptr::from_ref(value).cast_mut(), Ordering::Release);
    }

    /// What was put there last.
    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        // SYNC with `to` store in `set`: what the value refers to.
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
