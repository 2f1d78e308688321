//! Brackets around calls that block in the kernel: OThreads' `Begin_BlockingCall` and
//! `End_BlockingCall` (section 3.2.2).

use crate::block::control::Control;
use crate::sched::activations;
use crate::sched::scheduler::{self, Scheduler};
use crate::sched::switch_hooks;
use crate::thread::spare_threads;

/// Runs `call`, which may block in the kernel, so that no other thread waits for it.
///
/// If no other thread has started on this activation, `call` runs right here. If it lasts and
/// others wait for a processor, another activation gets this one's. While nobody waits, that costs
/// a few nanoseconds each way. If other threads have started here, they could not run meanwhile. So
/// `call` runs on a spare kernel thread, and only the calling thread blocks. If the kernel gives no
/// kernel thread, `call` runs right here all the same. On a plain kernel thread it just runs. See
/// [`blocking_here`] for a closure that is not `Send`.
///
/// Inside, the caller counts as a plain kernel thread: it blocks in the kernel.
///
/// # Panics
/// With what `call` panics.
///
/// # Examples
/// ```
/// use underpass::thread;
///
/// let text = thread::spawn(|| thread::blocking(|| std::fs::read_to_string("/proc/self/comm")));
/// assert!(!text.join().unwrap()?.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
#[inline]
pub fn blocking<F, T>(call: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    match scheduler::running() {
        None => {
            switch_hooks::refuse_blocking();
            call()
        }
        Some((own, me)) if own.live() == 1 => {
            let _call = BlockingCall::begin(own, me);
            call()
        }
        Some(_) => spare_threads::run(call),
    }
}

/// Runs `call`, which may block in the kernel, on the calling thread's own kernel thread: for a
/// closure that can't go to another one.
///
/// That is a closure that is not `Send`, or one that uses something that belongs to its kernel
/// thread: a `thread_local!` of `std`, a connection of a C library, `errno`.
///
/// The other threads that have started on this activation wait until `call` returns, and so do
/// their timers. Threads that have not started, incoming calls, and threads of other activations go
/// on: if `call` lasts and others wait for a processor, another activation gets this one's. If no
/// other thread has started here, this is the same as [`blocking`].
///
/// Inside, the caller counts as a plain kernel thread: it blocks in the kernel. So `call` must not
/// wait for another thread of this activation, which can't run meanwhile.
///
/// # Panics
/// With what `call` panics.
///
/// # Examples
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use underpass::thread;
/// let sum = thread::spawn(|| {
///     let sum = Rc::new(Cell::new(0));
///     let same = sum.clone();
///     thread::blocking_here(move || same.set(same.get() + 1));
///     sum.get()
/// });
/// assert_eq!(sum.join().unwrap(), 1);
/// ```
pub fn blocking_here<T>(call: impl FnOnce() -> T) -> T {
    let _call = scheduler::running().map(|(own, me)| BlockingCall::begin(own, me));
    if _call.is_none() {
        switch_hooks::refuse_blocking();
    }
    call()
}

/// Runs `call` without a switch to another user-level thread meanwhile: for what belongs to the
/// kernel thread as long as `call` runs, such as the context of an async runtime.
///
/// Inside, the caller counts as a plain kernel thread: it blocks in the kernel, and its time slice
/// does not end. Nothing is announced, so this costs only a few instructions. If `call` blocks all
/// the same, other activations serve what comes as soon as the monitor has found that. Use
/// [`blocking_here`] where `call` usually blocks.
///
/// # Errors
/// Gives `call` back, if other threads have started on this activation: they could not run
/// meanwhile.
///
/// # Examples
/// ```
/// use underpass::thread;
///
/// let seven = thread::spawn(|| thread::without_switches(|| 7).ok());
/// assert_eq!(seven.join().unwrap(), Some(7));
/// ```
pub fn without_switches<T, F: FnOnce() -> T>(call: F) -> Result<T, F> {
    match scheduler::running() {
        None => Ok(call()),
        Some((own, me)) if own.live() == 1 && !own.is_listener() => {
            own.outside().in_blocking_call.set(me);
            own.outside().current.clear();
            let _unswitched = Unswitched { own, me };
            Ok(call())
        }
        Some(_) => Err(call),
    }
}

/// The time of a call without switches.
struct Unswitched {
    own: &'static Scheduler,
    me: &'static Control,
}

impl Drop for Unswitched {
    fn drop(&mut self) {
        self.own.outside().current.set(self.me);
        self.own.outside().in_blocking_call.clear();
    }
}

/// The time between the two brackets.
struct BlockingCall {
    own: &'static Scheduler,
    me: &'static Control,
}

impl BlockingCall {
    #[inline]
    fn begin(own: &'static Scheduler, me: &'static Control) -> Self {
        own.outside().in_blocking_call.set(me);
        own.outside().current.clear();
        if own.is_listener() {
            // The client that has donated this processor has more use for it now.
            own.quit();
        }
        own.activation().begin_blocking();
        if !own.sees_no_lines() {
            own.leave_lines();
        }
        Self { own, me }
    }
}

impl Drop for BlockingCall {
    #[inline]
    fn drop(&mut self) {
        self.own.activation().end_blocking();
        self.own.outside().current.set(self.me);
        self.own.outside().in_blocking_call.clear();
    }
}

impl Scheduler {
    /// This activation does not poll the lines any more. If it was the only one, another one has
    /// to.
    #[cold]
    fn leave_lines(&self) {
        activations::follow(self.number());
        if !activations::watched() {
            activations::wake_idle();
        }
    }
}
