//! Lists of threads: each is linked through its control block, so that no list needs memory.

use std::cell::Cell;
use underpass_seam::StaticSlot;

/// What can be linked. It is in one list at a time.
pub trait Linked: 'static + Sized {
    /// The link to the next one, which belongs to whoever has the list.
    fn link(&self) -> &StaticSlot<Self>;
}

/// First come, first served. One kernel thread puts in and takes out; others may see whether it is
/// empty.
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
    /// Whether it is empty: a hint to others than its owner.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_clear()
    }

    /// Puts `item` at the end.
    #[inline]
    pub fn push(&self, item: &'static T) {
        item.link().clear();
        // `last` is of no meaning while the queue is empty.
        match self.last.get().filter(|_| !self.is_empty()) {
            Some(last) => last.link().set(item),
            None => self.first.set(item),
        }
        self.last.set(item);
    }

    /// Takes the first.
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
    /// Where the first one's address lies in it, for debuggers.
    pub const PLACE_OF_FIRST: usize = std::mem::offset_of!(Self, first);

    /// Shows all that are in it, to its owner.
    pub fn each(&self, mut see: impl FnMut(&'static T)) {
        let mut next = self.first.get();
        while let Some(item) = next {
            see(item);
            next = item.link().get();
        }
    }
}

/// Last come, first served: what was used last is warm. Of one kernel thread.
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
    /// How many there are.
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

    /// Takes the top one.
    #[inline]
    pub fn pop(&self) -> Option<&'static T> {
        let top = self.top.get()?;
        self.top.set(top.link().get());
        self.len.set(self.len.get() - 1);
        Some(top)
    }
}
