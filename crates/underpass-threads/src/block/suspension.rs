//! What a suspended thread waits for, as its home sees it.

use crate::block::control::Control;
use crate::block::registry;
use crate::block::timers::TimerKey;

/// What a thread waits for. Dumps show it, and the search for deadlocks reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The kind of thing, as in "it waits for ...".
    pub kind: &'static str,
    /// The address of the thing.
    pub address: usize,
    /// The number of the thread that holds the thing, if one does.
    pub holder: Option<u64>,
}

impl Awaited {
    /// The kind of a join. Its holder is the thread that is to end.
    pub(crate) const END: &'static str = "the end of a thread";
}

/// What a thread is suspended on.
pub trait Wait {
    /// Takes `thread` out of the list of waiters. `true`: `thread` was in it, and nobody will wake
    /// it. `false`: its wake-up is under way.
    ///
    /// Called while `thread` is suspended, from any place in the runtime. If a deadline came too
    /// late, a cancellation may call it a second time.
    fn abandon(&self, thread: &'static Control) -> bool;

    /// What is waited for.
    fn describe(&self) -> Awaited {
        Awaited { kind: "something", address: 0, holder: None }
    }

    /// The thread that holds what is waited for, if one does. Called before each wait that neither
    /// a deadline nor a cancellation ends. A type that has the holder at hand overrides it.
    #[inline]
    fn holder(&self) -> Option<&'static Control> {
        registry::find(self.describe().holder?)
    }
}

/// Why a suspension ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// By [`Control::wake`].
    Woken,
    /// The deadline passed.
    Late,
    /// The thread was cancelled.
    Cancelled,
}

/// A suspended thread's record of its wait, for its home.
pub(crate) struct Suspension {
    /// Valid while the thread is suspended: `suspend` borrows what it points to.
    pub(crate) wait: *const dyn Wait,
    /// The flags of the thread that end the wait.
    pub(crate) ended_by: u32,
    /// Set at the home by a search for deadlocks. It belongs to this suspension, and is gone with
    /// it.
    pub(crate) mark: u32,
    pub(crate) timer: Option<TimerKey>,
    pub(crate) outcome: Woken,
}

impl Suspension {
    /// The offset of `wait` in an `Option<Suspension>` that holds one.
    pub(crate) const WAIT: usize = {
        // The option has no tag of its own, so the suspension lies at its beginning.
        assert!(size_of::<Option<Self>>() == size_of::<Self>());
        std::mem::offset_of!(Self, wait)
    };
}

impl Control {
    /// Ends the suspension for `why`, if nobody else has. Returns whether to put the thread on the
    /// ready list.
    ///
    /// # Safety
    /// The caller is the thread's home, and the thread doesn't run.
    pub(crate) unsafe fn give_up(&'static self, why: Woken) -> bool {
        // SAFETY: the caller is the home, which owns the field.
        let Some(suspension) = (unsafe { self.suspension.get() }) else { return false };
        if suspension.outcome != Woken::Woken || (why == Woken::Cancelled && !self.has(suspension.ended_by)) {
            return false;
        }
        // SAFETY: the thread is suspended, so what it waits for is still borrowed.
        let abandoned = unsafe { &*suspension.wait }.abandon(self);
        if abandoned {
            suspension.outcome = why;
        }
        abandoned
    }

    /// What the thread is suspended on.
    ///
    /// # Safety
    /// The caller is the thread's home, and the thread doesn't run.
    pub(crate) unsafe fn awaited(&self) -> Option<Awaited> {
        // SAFETY: the caller is the home, which owns the field.
        let suspension = unsafe { self.suspension.get() }.as_ref()?;
        // SAFETY: the thread is suspended, so what it waits for is still borrowed.
        Some(unsafe { &*suspension.wait }.describe())
    }

    /// Marks the suspension. Returns what the thread is suspended on, and the mark before, if
    /// neither a deadline nor a cancellation ends the wait.
    ///
    /// # Safety
    /// The caller is the thread's home, and the thread doesn't run.
    pub(crate) unsafe fn mark(&self, mark: u32) -> Option<(Awaited, u32)> {
        // SAFETY: as the caller says.
        let awaited = unsafe { self.awaited() }?;
        // SAFETY: the caller is the home, which owns the field.
        let suspension = unsafe { self.suspension.get() }.as_mut()?;
        if suspension.ended_by != 0 || suspension.timer.is_some() || suspension.outcome != Woken::Woken {
            return None;
        }
        Some((awaited, std::mem::replace(&mut suspension.mark, mark)))
    }

    /// Takes the thread's timer, which the home removes when the thread goes on.
    ///
    /// # Safety
    /// The caller is the thread's home, and the thread doesn't run.
    pub(crate) unsafe fn take_timer(&self) -> Option<TimerKey> {
        // SAFETY: the caller is the home, which owns the field.
        unsafe { self.suspension.get() }.as_mut()?.timer.take()
    }
}
