//! A queue and a stack of threads, linked through their control blocks. So no list needs memory.

use std::cell::Cell;
use underpass_seam::StaticSlot;

/// Something that can be linked. It is in one list at a time.
pub trait Linked: 'static + Sized {
    /// The link to the next item. It belongs to the owner of the list.
    fn link(&self) -> &StaticSlot<Self>;
}

/// A first-in, first-out queue. One kernel thread puts in and takes out. Others may ask whether it
/// is empty.
pub struct LinkedQueue<T: 'static> {
    first: StaticSlot<T>,
    last: StaticSlot<T>,
}

impl<T> Default for LinkedQueue<T> {
    fn default() -> Self {
        Self { first: StaticSlot::new(), last: StaticSlot::new() }
    }
}

impl<T: Linked> LinkedQueue<T> {
    /// Whether the queue is empty: exact for its owner, a hint for others.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_clear()
    }

    /// Puts `item` at the end.
    #[inline]
    pub fn push(&self, item: &'static T) {
        item.link().clear();
        // `last` has no meaning while the queue is empty.
        match self.last.get().filter(|_| !self.is_empty()) {
            Some(last) => last.link().set(item),
            None => self.first.set(item),
        }
        self.last.set(item);
    }

    /// Takes the first item.
    #[inline]
    pub fn pop(&self) -> Option<&'static T> {
        let first = self.first.get()?;
        match first.link().get() {
            Some(next) => self.first.set(next),
            None => self.first.clear(),
        }
        Some(first)
    }
}

impl<T: Linked> LinkedQueue<T> {
    /// The offset of the first item's address, for debuggers.
    pub const PLACE_OF_FIRST: usize = std::mem::offset_of!(Self, first);

    /// Runs `see` on each item. For the owner.
    pub fn each(&self, mut see: impl FnMut(&'static T)) {
        let mut next = self.first.get();
        while let Some(item) = next {
            see(item);
            next = item.link().get();
        }
    }
}

/// A stack: what was used last is still in the cache. For one kernel thread.
pub struct LinkedStack<T: 'static> {
    top: Cell<Option<&'static T>>,
    len: Cell<usize>,
}

impl<T> Default for LinkedStack<T> {
    fn default() -> Self {
        Self { top: Cell::new(None), len: Cell::new(0) }
    }
}

impl<T: Linked> LinkedStack<T> {
    /// The number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.len.get()
    }

    /// Puts `item` on top.
    #[inline]
    pub fn push(&self, item: &'static T) {
        match self.top.replace(Some(item)) {
            Some(below) => item.link().set(below),
            None => item.link().clear(),
        }
        self.len.set(self.len.get() + 1);
    }

    /// Takes the item on top.
    #[inline]
    pub fn pop(&self) -> Option<&'static T> {
        let top = self.top.get()?;
        self.top.set(top.link().get());
        self.len.set(self.len.get() - 1);
        Some(top)
    }
}
