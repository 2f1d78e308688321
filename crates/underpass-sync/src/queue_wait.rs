//! A waiter in a queue, as the runtime sees it.

use crate::runtime::{Awaited, Control, Wait, WaitLimit, Woken, suspend};
use crate::wait_queue::Entry;
use std::ptr;

/// One suspension for a place in a list.
pub(crate) struct QueueWait<'a, D, P, const LISTS: usize> {
    entry: &'a Entry<'a, D, P, LISTS>,
    kind: &'static str,
    address: usize,
    holder: &'a dyn Fn() -> Option<u64>,
}

impl<'a, D, P, const LISTS: usize> QueueWait<'a, D, P, LISTS> {
    /// Waits for `what`, a `kind`.
    #[inline]
    pub(crate) fn new<W>(
        entry: &'a Entry<'a, D, P, LISTS>,
        kind: &'static str,
        what: &W,
        holder: &'a dyn Fn() -> Option<u64>,
    ) -> Self {
        Self { entry, kind, address: ptr::from_ref(what).addr(), holder }
    }

    /// Suspends `me`, whose place it is.
    #[inline(always)]
    pub(crate) fn suspend(&self, me: &'static Control, limit: WaitLimit, cancellable: bool) -> Woken {
        suspend(me, self, limit.deadline_ns(), cancellable)
    }
}

impl<D, P, const LISTS: usize> Wait for QueueWait<'_, D, P, LISTS> {
    fn abandon(&self, _who: &'static Control) -> bool {
        self.entry.abandon()
    }

    fn describe(&self) -> Awaited {
        Awaited { kind: self.kind, address: self.address, holder: (self.holder)() }
    }
}

/// Nobody holds what is waited for.
pub(crate) fn nobody() -> Option<u64> {
    None
}
