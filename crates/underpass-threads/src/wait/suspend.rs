//! Suspending the calling thread for exactly one wake.
//!
//! Who waits puts itself into some list, and suspends itself. Who takes it out of that list, under
//! the list's lock or by an atomic exchange, is the one who wakes it: a waker, or
//! [`Wait::abandon`], called for a deadline or a cancellation. So there is one wake for each
//! suspension, and no state of the thread to agree on.
//!
//! A wake may come before the thread has left its stack. It then lies in a list of the thread's
//! home, and nobody but the home's own kernel thread, which runs the thread at that moment, takes
//! it from there.

use crate::block::control::{Control, flag};
use crate::block::registry;
use crate::block::timers::Timer;
use crate::diagnose::deadlock_watch;
use crate::sched::scheduler::{self, Scheduler};
use crate::sched::switch_hooks;
use crate::thread::current::{control, kernel};
use underpass_context::Pause;
use underpass_os::clock::now_ns;

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
    wait: *const dyn Wait,
    /// The thread's flags that end it.
    ended_by: u32,
    /// Set by who searches for deadlocks, and so by its home: of this suspension, and gone with it.
    mark: u32,
    timer: Option<Timer>,
    outcome: Woken,
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
    pub(crate) unsafe fn take_timer(&self) -> Option<Timer> {
        // SAFETY: the home owns it.
        unsafe { self.suspension.get() }.as_mut()?.timer.take()
    }
}

/// The calling thread, as one who waits.
#[inline]
pub fn me() -> &'static Control {
    control()
}

/// Suspends the calling thread, `me`, until [`Control::wake`]; or until `deadline_ns` or, if it is
/// `cancellable`, its cancellation, if then `wait` could be abandoned.
///
/// # Safety
/// `me` is the calling thread. It was put into a list from which exactly one takes it out: either
/// who will [`wake`](Control::wake) it, once, or `wait.abandon`, which says the truth about that.
#[inline(always)]
pub unsafe fn suspend(
    me: &'static Control,
    wait: &dyn Wait,
    deadline_ns: Option<u64>,
    cancellable: bool,
) -> Woken {
    let ended_by = if cancellable { flag::CANCELLED } else { 0 };
    // SAFETY: as the caller says.
    unsafe { suspend_unless(me, wait, deadline_ns, ended_by) }
}

/// As [`suspend`], until one of the flags `ended_by` is set and its home told.
///
/// # Safety
/// As [`suspend`].
#[inline(always)]
pub(crate) unsafe fn suspend_unless(
    me: &'static Control,
    wait: &dyn Wait,
    deadline_ns: Option<u64>,
    ended_by: u32,
) -> Woken {
    match scheduler::running() {
        // SAFETY: as the caller says.
        Some((own, _)) => unsafe { on_activation(own, me, wait, deadline_ns, ended_by) },
        None => in_kernel(me, wait, deadline_ns, ended_by),
    }
}

/// As [`suspend_unless`], of a user-level thread, on its own activation.
///
/// # Safety
/// As [`suspend`].
#[inline(always)]
pub(crate) unsafe fn on_activation(
    own: &'static Scheduler,
    me: &'static Control,
    wait: &dyn Wait,
    deadline_ns: Option<u64>,
    ended_by: u32,
) -> Woken {
    if ended_by != 0 {
        if me.has(ended_by) && wait.abandon(me) {
            return Woken::Cancelled;
        }
    } else {
        deadlock_watch::about_to_wait(me, wait);
    }
    let timer = deadline_ns.map(|deadline| own.timers().borrow_mut().add(deadline, me));
    // SAFETY: only the lifetime changes; it is taken away again below, before the borrow ends.
    let wait = unsafe { std::mem::transmute::<*const (dyn Wait + '_), *const (dyn Wait + 'static)>(wait) };
    // SAFETY: the thread runs, so its home is this very kernel thread.
    unsafe {
        *me.suspension.get() = Some(Suspension { wait, ended_by, mark: 0, timer, outcome: Woken::Woken })
    };
    me.stamp();
    own.pause(me, Pause::Block);
    after(me)
}

/// What is left to do: by now a migrating thread may run on another kernel thread, hence a function
/// of its own.
#[inline]
fn after(me: &'static Control) -> Woken {
    // SAFETY: the thread runs, so its home is this very kernel thread.
    let suspension = unsafe { me.suspension.get() }.take().expect("only the thread itself takes it");
    if let Some(timer) = suspension.timer {
        scheduler::anew().timers().borrow_mut().remove(timer);
    }
    deadlock_watch::waited(me);
    suspension.outcome
}

/// A plain kernel thread sleeps in the kernel.
#[cold]
fn in_kernel(me: &'static Control, wait: &dyn Wait, deadline_ns: Option<u64>, ended_by: u32) -> Woken {
    if me.take_woken() {
        return Woken::Woken;
    }
    switch_hooks::refuse_waiting(wait);
    let for_good = ended_by == 0 && deadline_ns.is_none();
    if ended_by == 0 {
        deadlock_watch::about_to_wait(me, wait);
    }
    let kernel = kernel();
    let _waits = kernel.as_deref().map(|kernel| kernel.waits(wait, for_good));
    let woken = sleep_in_kernel(me, wait, deadline_ns, ended_by);
    deadlock_watch::waited(me);
    woken
}

fn sleep_in_kernel(me: &'static Control, wait: &dyn Wait, deadline_ns: Option<u64>, ended_by: u32) -> Woken {
    // Once the wait could not be abandoned, its wake is under way.
    let mut given_up = false;
    loop {
        if me.take_woken() {
            return Woken::Woken;
        }
        if !given_up {
            let late = deadline_ns.is_some_and(|deadline| deadline <= now_ns());
            let cancelled = me.has(ended_by);
            if late || cancelled {
                given_up = true;
                if wait.abandon(me) {
                    return if cancelled { Woken::Cancelled } else { Woken::Late };
                }
            }
        }
        let until = deadline_ns.filter(|_| !given_up);
        me.parker().sleep(until);
    }
}
