//! Remote wake-ups: the threads of an activation that other activations have woken.

use crate::lists::linked::Linked;
use underpass_seam::StaticSlot;

/// Many producers put items in, and the owner takes all of them out. The chain begins with the item
/// that came last.
#[derive(Debug)]
#[repr(transparent)]
pub struct Inbox<T: 'static> {
    last: StaticSlot<T>,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self { last: StaticSlot::new() }
    }
}

impl<T: Linked> Inbox<T> {
    /// Whether the inbox is empty: a hint.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.last.is_clear()
    }

    /// Puts `item` in. The caller owns it until then.
    pub fn put(&self, item: &'static T) {
        let mut last = self.last.get();
        loop {
            match last {
                Some(last) => item.link().set(last),
                None => item.link().clear(),
            }
            // SYNC with the swap in `take_all`: `item` and its link.
            match self.last.exchange(last, item) {
                Ok(()) => return,
                Err(now) => last = now,
            }
        }
    }

    /// Takes all items out, and runs `each` on them in the order in which they came.
    pub fn take_all(&self, mut each: impl FnMut(&'static T)) {
        let mut chain = self.last.swap(None);
        let mut first: Option<&'static T> = None;
        while let Some(item) = chain {
            chain = item.link().get();
            match first {
                Some(first) => item.link().set(first),
                None => item.link().clear(),
            }
            first = Some(item);
        }
        while let Some(item) = first {
            first = item.link().get();
            each(item);
        }
    }
}
