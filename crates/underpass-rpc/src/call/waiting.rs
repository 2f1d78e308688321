//! How a thread waits for its reply. All promises that this crate makes to the runtime are here.

use crate::call::answer::{Answer, Landing};
use std::ptr;
use underpass_processor::{Line, PolledLine};
use underpass_seam::atomic::{AtomicPtr, Ordering};
use underpass_threads::{Awaited, BlocksAtOnce, Control, Opens, Wait, Wakes, Woken, wait_registered};

/// Holds the thread that has blocked for the reply of one slot. Read and written under the lock of
/// the client's end alone, which orders all accesses.
#[derive(Debug, Default)]
pub(crate) struct WaiterSlot {
    who: AtomicPtr<Control>,
}

impl WaiterSlot {
    #[inline]
    fn enter(&self, who: &'static Control) {
        self.who.store(ptr::from_ref(who).cast_mut(), Ordering::Relaxed);
    }

    /// Registers the calling thread already when it posts, if it will block at once. The thread
    /// then goes on to [`AwaitedReply::wait_noted`], and until there does nothing that could
    /// suspend it.
    #[inline(always)]
    pub(crate) fn note(&self) -> Option<Noted> {
        let caller = BlocksAtOnce::here()?;
        self.enter(caller.thread());
        Some(Noted(caller))
    }

    /// Whether no thread is registered.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.who.load(Ordering::Relaxed).is_null()
    }

    /// Takes the registered thread out. The caller of this wakes it, or has it give up.
    #[inline]
    pub(crate) fn leave(&self) -> Option<&'static Control> {
        let who = self.who.load(Ordering::Relaxed);
        self.who.store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: only `enter` stores a pointer that isn't null, from a reference to a control
        // block, which lives for ever.
        unsafe { who.as_ref() }
    }
}

/// A caller that is registered before it waits.
pub(crate) struct Noted(BlocksAtOnce);

/// Wakes a thread that was taken out of its waiter slot. Outside the lock.
#[inline]
pub(crate) fn wake(who: &'static Control) {
    // SAFETY: `leave` runs under the lock, so it gives each thread that has entered out once. Only
    // what `settle` was given comes here.
    unsafe { who.wake() };
}

/// Wakes it within the lock too, if it lives on the caller's activation. Returns whether it does.
#[inline(always)]
pub(crate) fn wake_here(wakes: &mut Wakes, who: &'static Control) -> bool {
    // SAFETY: as in `wake`. A thread that takes replies is not suspended between the beginning of
    // its `wakes` and their end.
    unsafe { wakes.wake_here(who) }
}

/// The reply to one call, as something to wait for.
pub(crate) struct AwaitedReply<'a> {
    pub(crate) answer: &'a Answer<'a>,
    /// Where the caller may put the reply if it finds it first.
    pub(crate) landing: Option<&'a Landing>,
}

impl AwaitedReply<'_> {
    /// Waits for the reply, without a deadline.
    #[inline(always)]
    pub(crate) fn wait_noted(&self, noted: Noted) -> Woken {
        // SAFETY: the thread is in the waiter slot, once, as `register` would have put it there. It
        // was not suspended since, as `note` asks.
        unsafe { wait_registered(noted.0, self) }
    }
}

impl Wait for AwaitedReply<'_> {
    fn abandon(&self, _who: &'static Control) -> bool {
        let _inside = self.answer.end.lock();
        self.answer.linkage().waiter_slot.leave().is_some()
    }

    fn describe(&self) -> Awaited {
        Awaited { kind: "a reply", address: ptr::from_ref(self.answer.linkage()).addr(), holder: None }
    }
}

// SAFETY: `register`, or `note`, puts the waiter into the waiter slot, with the lock held. `leave`
// takes it out there. Its caller either settles the call, and wakes the waiter once, or is
// `abandon`. A registered waiter never polls for its own reply.
unsafe impl Opens for AwaitedReply<'_> {
    #[inline(always)]
    fn is_open(&self) -> bool {
        // The landing first: if the caller has taken its own reply, the slot may belong to another
        // call by then.
        self.landing.is_some_and(Landing::is_caught) || self.answer.linkage().is_settled()
    }

    #[inline(always)]
    fn register(&self, me: &'static Control) -> bool {
        let linkage = self.answer.linkage();
        let _inside = self.answer.end.lock();
        let settled = linkage.is_settled();
        if !settled {
            linkage.waiter_slot.enter(me);
        }
        !settled
    }

    #[inline(always)]
    fn stirs(&self) -> bool {
        self.answer.end.stirs() || self.is_open()
    }

    #[inline(always)]
    fn poll(&self, _line: &dyn Line) -> bool {
        self.answer.end.look_for(self)
    }
}
