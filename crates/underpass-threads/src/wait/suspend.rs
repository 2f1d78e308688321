//! Suspending the calling thread for exactly one wake-up.
//!
//! A waiting thread puts itself into a list, and suspends itself. Exactly one other takes it out of
//! that list, under the list's lock or by an atomic exchange, and ends the wait. That is a waker,
//! or a call of [`Wait::abandon`] for a deadline or a cancellation. So there is one wake-up for
//! each suspension, and the thread needs no state on which both sides agree.
//!
//! A wake-up may come before the thread has left its stack. It then lies in a list of the thread's
//! home. Only the home's own kernel thread takes it from there, and that one runs the thread at
//! this moment.

use crate::block::control::{Control, flag};
use crate::block::suspension::{Suspension, Wait, Woken};
use crate::diagnose::deadlock_watch;
use crate::sched::scheduler::{self, Scheduler};
use crate::sched::switch_hooks;
use crate::wait::me::{control, kernel};
use crate::wait::section::{OutOfSection, leaves_at_waits};
use underpass_context::Pause;
use underpass_os::clock::now_ns;

/// The control block of the calling thread, for a list of waiters.
#[inline]
pub fn me() -> &'static Control {
    control()
}

/// Suspends the calling thread, `me`, until [`Control::wake`]. If `wait` can be abandoned then, the
/// suspension also ends at `deadline_ns`, and by the thread's cancellation if it is `cancellable`.
///
/// # Safety
/// `me` is the calling thread. It was put into a list from which exactly one takes it out: a waker
/// that [`wake`](Control::wake)s it once, or `wait.abandon`, which returns truthfully whether it
/// did.
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

/// As [`suspend`]. The suspension also ends if the caller's calls [end](crate::calls_end).
///
/// # Safety
/// As [`suspend`].
pub unsafe fn suspend_as_call(me: &'static Control, wait: &dyn Wait, deadline_ns: Option<u64>) -> Woken {
    // SAFETY: as the caller says.
    unsafe { suspend_unless(me, wait, deadline_ns, me.calls_ended_by()) }
}

/// As [`suspend`], but any of the flags `ended_by` ends the wait, once the thread's home learns of
/// it.
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

/// As [`suspend_unless`], for a user-level thread on its own activation.
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
    // One test for both. Most threads have no such flag.
    if me.has(ended_by | flag::SECTIONS) {
        // SAFETY: as the caller says.
        if let Some(woken) = unsafe { on_activation_oddly(me, wait, deadline_ns, ended_by) } {
            return woken;
        }
    }
    if ended_by == 0 {
        deadlock_watch::about_to_wait(me, wait);
    }
    let timer = deadline_ns.map(|deadline| own.timers().borrow_mut().add(deadline, me));
    // SAFETY: only the lifetime changes. The pointer is removed again below, before the borrow
    // ends.
    let wait = unsafe { std::mem::transmute::<*const (dyn Wait + '_), *const (dyn Wait + 'static)>(wait) };
    // SAFETY: the thread runs, so this very kernel thread is its home.
    unsafe {
        *me.suspension.get() = Some(Suspension { wait, ended_by, mark: 0, timer, outcome: Woken::Woken })
    };
    me.mark_suspended();
    own.pause(me, Pause::Block);
    after(me)
}

/// As [`on_activation`], for a thread that leaves its current section meanwhile, or has no need
/// to wait. `None` for any other thread.
///
/// # Safety
/// As [`suspend`].
#[cold]
#[inline(never)]
unsafe fn on_activation_oddly(
    me: &'static Control,
    wait: &dyn Wait,
    deadline_ns: Option<u64>,
    ended_by: u32,
) -> Option<Woken> {
    if leaves_at_waits(me) {
        let _out = OutOfSection::of(me);
        // SAFETY: as the caller says.
        return Some(unsafe { suspend_unless(me, wait, deadline_ns, ended_by) });
    }
    (me.has(ended_by) && wait.abandon(me)).then_some(Woken::Cancelled)
}

/// Ends the suspension. A function of its own, because a migrating thread may run on another kernel
/// thread by now.
#[inline]
fn after(me: &'static Control) -> Woken {
    // SAFETY: the thread runs, so this very kernel thread is its home.
    let suspension = unsafe { me.suspension.get() }.take().expect("only the thread itself takes it");
    if let Some(timer) = suspension.timer {
        scheduler::anew().timers().borrow_mut().remove(timer);
    }
    deadlock_watch::waited(me);
    suspension.outcome
}

/// As [`suspend_unless`], for a plain kernel thread: it sleeps in the kernel.
#[cold]
fn in_kernel(me: &'static Control, wait: &dyn Wait, deadline_ns: Option<u64>, ended_by: u32) -> Woken {
    let _out = leaves_at_waits(me).then(|| OutOfSection::of(me));
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
    // Set once `abandon` was called. If that came too late, the wake-up is under way.
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
