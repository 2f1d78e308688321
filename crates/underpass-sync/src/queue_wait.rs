//! A wait in a queue, as the runtime sees it.

use crate::runtime::{Awaited, Control, Wait, WaitLimit, Woken, suspend, suspend_as_call};
use crate::wait_queue::Entry;
use std::ptr;

/// One suspension of a thread that is in a list.
pub(crate) struct QueueWait<'a, D, P, const LISTS: usize> {
    entry: &'a Entry<'a, D, P, LISTS>,
    kind: &'static str,
    address: usize,
    holder: &'a dyn Fn() -> Option<u64>,
}

impl<'a, D, P, const LISTS: usize> QueueWait<'a, D, P, LISTS> {
    /// A wait for `what`. `kind` names it in dumps.
    #[inline]
    pub(crate) fn new<W>(
        entry: &'a Entry<'a, D, P, LISTS>,
        kind: &'static str,
        what: &W,
        holder: &'a dyn Fn() -> Option<u64>,
    ) -> Self {
        Self { entry, kind, address: ptr::from_ref(what).addr(), holder }
    }

    /// Suspends `me`, the thread in the list.
    #[inline(always)]
    pub(crate) fn suspend(&self, me: &'static Control, limit: WaitLimit, cancellable: bool) -> Woken {
        suspend(me, self, limit.deadline_ns(), cancellable)
    }

    /// As [`suspend`](Self::suspend). What ends the thread's calls ends this too.
    pub(crate) fn suspend_as_call(&self, me: &'static Control, limit: WaitLimit) -> Woken {
        suspend_as_call(me, self, limit.deadline_ns())
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

/// For things without a holder.
pub(crate) fn nobody() -> Option<u64> {
    None
}
