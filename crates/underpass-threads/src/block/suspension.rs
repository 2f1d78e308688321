//! What a suspended thread waits for, as its home sees it.

use crate::block::control::Control;
use crate::block::registry;
use crate::block::timers::TimerKey;

/// What a thread waits for, for people and for the search for deadlocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// What kind of thing, as in "it waits for ...".
    pub kind: &'static str,
    /// Where it is.
    pub address: usize,
    /// The number of the thread that holds it, if one does.
    pub holder: Option<u64>,
}

impl Awaited {
    /// The kind of a join, of which the holder is the thread that is to end.
    pub(crate) const END: &'static str = "the end of a thread";
}

/// What a thread is suspended on.
pub trait Wait {
    /// Takes `who` out of the list of waiters. `true`: it was there, and nobody will wake it.
    /// `false`: its wake is under way.
    ///
    /// Called while `who` is suspended, from any place of the runtime; once more for a cancellation
    /// if it came too late for a deadline.
    fn abandon(&self, who: &'static Control) -> bool;

    /// What is waited for.
    fn describe(&self) -> Awaited {
        Awaited { kind: "something", address: 0, holder: None }
    }

    /// The thread that holds it, if one does. Asked before each wait that neither a deadline nor a
    /// cancellation ends, so who has it at hand says it here.
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

/// A suspended thread's own account of it, for its home.
pub(crate) struct Suspension {
    /// Valid while the thread is suspended: what it points to is borrowed by [`suspend`].
    pub(crate) wait: *const dyn Wait,
    /// The thread's flags that end it.
    pub(crate) ended_by: u32,
    /// Set by who searches for deadlocks, and so by its home: of this suspension, and gone with it.
    pub(crate) mark: u32,
    pub(crate) timer: Option<TimerKey>,
    pub(crate) outcome: Woken,
}

impl Suspension {
    /// Where the wait lies in a place for a suspension, if one is there.
    pub(crate) const WAIT: usize = {
        // What tells whether one is there takes no room of its own, so it lies at the place's
        // beginning.
        assert!(size_of::<Option<Self>>() == size_of::<Self>());
        std::mem::offset_of!(Self, wait)
    };
}

impl Control {
    /// Ends the suspension for `why`, if nobody else has. Says whether the thread is to be put on
    /// the ready list.
    ///
    /// # Safety
    /// The caller is its home, and it doesn't run.
    pub(crate) unsafe fn give_up(&'static self, why: Woken) -> bool {
        // SAFETY: the home owns it.
        let Some(suspension) = (unsafe { self.suspension.get() }) else { return false };
        if suspension.outcome != Woken::Woken || (why == Woken::Cancelled && !self.has(suspension.ended_by)) {
            return false;
        }
        // SAFETY: the thread is suspended, so what it waits for is borrowed still.
        let abandoned = unsafe { &*suspension.wait }.abandon(self);
        if abandoned {
            suspension.outcome = why;
        }
        abandoned
    }

    /// What it is suspended on.
    ///
    /// # Safety
    /// The caller is its home, and it doesn't run.
    pub(crate) unsafe fn awaited(&self) -> Option<Awaited> {
        // SAFETY: the home owns it.
        let suspension = unsafe { self.suspension.get() }.as_ref()?;
        // SAFETY: the thread is suspended, so what it waits for is borrowed still.
        Some(unsafe { &*suspension.wait }.describe())
    }

    /// What it is suspended on if neither a deadline nor a cancellation ends that, and what it was
    /// marked with before. Marks the suspension.
    ///
    /// # Safety
    /// The caller is its home, and it doesn't run.
    pub(crate) unsafe fn mark(&self, mark: u32) -> Option<(Awaited, u32)> {
        // SAFETY: as the caller says.
        let awaited = unsafe { self.awaited() }?;
        // SAFETY: the home owns it.
        let suspension = unsafe { self.suspension.get() }.as_mut()?;
        if suspension.ended_by != 0 || suspension.timer.is_some() || suspension.outcome != Woken::Woken {
            return None;
        }
        Some((awaited, std::mem::replace(&mut suspension.mark, mark)))
    }

    /// Its timer, to be removed by its home when it goes on.
    ///
    /// # Safety
    /// The caller is its home, and it doesn't run.
    pub(crate) unsafe fn take_timer(&self) -> Option<TimerKey> {
        // SAFETY: the home owns it.
        unsafe { self.suspension.get() }.as_mut()?.timer.take()
    }
}
