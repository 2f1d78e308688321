//! How a caller waits for its reply: what this crate promises to the runtime, in one place.

use crate::call::answer::{Answer, Landing};
use std::ptr;
use underpass_processor::Line;
use underpass_seam::atomic::{AtomicPtr, Ordering};
use underpass_threads::{Awaited, BlocksAtOnce, Control, Opens, Wait, Wakes, Woken, wait_registered};

/// Where a caller is noted that has blocked. Read and written under the lock of the client's end
/// alone, which orders it.
#[derive(Debug, Default)]
pub(crate) struct Berth {
    who: AtomicPtr<Control>,
}

impl Berth {
    #[inline]
    fn enter(&self, who: &'static Control) {
        self.who.store(ptr::from_ref(who).cast_mut(), Ordering::Relaxed);
    }

    /// Notes the calling thread already as it posts, if it will block at once: it goes on to
    /// [`Reply::wait_noted`], and does nothing on the way that could suspend it.
    #[inline(always)]
    pub(crate) fn note(&self) -> Option<Noted> {
        let caller = BlocksAtOnce::here()?;
        self.enter(caller.thread());
        Some(Noted(caller))
    }

    /// Whether nobody is here.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.who.load(Ordering::Relaxed).is_null()
    }

    /// Who is here, and then is no longer: the caller of this wakes it, or has it give up.
    #[inline]
    pub(crate) fn leave(&self) -> Option<&'static Control> {
        let who = self.who.load(Ordering::Relaxed);
        self.who.store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: only `enter` stores what isn't null, from a reference to a control block, which
        // lives for ever.
        unsafe { who.as_ref() }
    }
}

/// A caller that is in its berth before it waits.
pub(crate) struct Noted(BlocksAtOnce);

/// Wakes one who has left its berth, outside the lock.
#[inline]
pub(crate) fn wake(who: &'static Control) {
    // SAFETY: `leave` gives each that has entered out once, since it runs under the lock; only what
    // `settle` was given comes here.
    unsafe { who.wake() };
}

/// The same, within the lock too, if it lives on the caller's activation; says whether it does.
#[inline(always)]
pub(crate) fn wake_here(wakes: &mut Wakes, who: &'static Control) -> bool {
    // SAFETY: as in `wake`; and who takes replies is not suspended between the beginning of its
    // `wakes` and their end.
    unsafe { wakes.wake_here(who) }
}

/// The reply to one call, as something to wait for.
pub(crate) struct Reply<'a> {
    pub(crate) answer: &'a Answer<'a>,
    /// Where its caller may put it that finds it first.
    pub(crate) landing: Option<&'a Landing>,
}

impl Reply<'_> {
    /// Waits for it, without a deadline.
    #[inline(always)]
    pub(crate) fn wait_noted(&self, noted: Noted) -> Woken {
        // SAFETY: it is in the berth, once, as `register` would have put it there, and was not
        // suspended since, as `note` asks.
        unsafe { wait_registered(noted.0, self) }
    }
}

impl Wait for Reply<'_> {
    fn abandon(&self, _who: &'static Control) -> bool {
        let _inside = self.answer.end.lock();
        self.answer.linkage().berth.leave().is_some()
    }

    fn describe(&self) -> Awaited {
        Awaited { kind: "a reply", address: ptr::from_ref(self.answer.linkage()).addr(), holder: None }
    }
}

// SAFETY: `register`, or `note`, notes the waiter in the berth, with the lock held, and `leave`
// takes it out there: either who settles the call, and wakes it once, or `abandon`. Who is in the
// berth catches nothing.
unsafe impl Opens for Reply<'_> {
    #[inline(always)]
    fn is_open(&self) -> bool {
        // First what was caught: the slot may be another's by then.
        self.landing.is_some_and(Landing::is_caught) || self.answer.linkage().is_settled()
    }

    #[inline(always)]
    fn register(&self, me: &'static Control) -> bool {
        let linkage = self.answer.linkage();
        let _inside = self.answer.end.lock();
        let settled = linkage.is_settled();
        if !settled {
            linkage.berth.enter(me);
        }
        !settled
    }

    #[inline(always)]
    fn stirs(&self) -> bool {
        self.answer.end.stirs() || self.is_open()
    }

    #[inline(always)]
    fn watch(&self) -> Option<bool> {
        self.answer.end.watch_for(self)
    }

    #[inline(always)]
    fn poll(&self, _line: &dyn Line) -> bool {
        self.answer.end.look_for(self)
    }
}
