//! What ends a thread's waits for its own calls, besides deadlines: its cancellation, and that the
//! caller of the call which it runs has given up.
//!
//! A thread that runs a call and has paused in it stays with that call to its end
//! (`dispatcher.rs`). So what its home notes about the call is noted in the thread, and is gone
//! with it.

use crate::block::control::{Control, flag};
use crate::block::registry;
use crate::block::suspension::Woken;
use crate::sched::scheduler::Scheduler;
use crate::wait::me::control;
use underpass_seam::atomic::{AtomicBool, Ordering};

/// The flags that end the wait for a call, unless the thread is in [`finish`] or [`apart`].
const ENDED_BY: u32 = flag::CANCELLED | flag::UNWANTED;

/// Whether anything has ever happened in this domain that may end calls early.
static MAY_END: AtomicBool = AtomicBool::new(false);

/// Whether something other than its own terms may end a call of this domain: a thread was
/// cancelled, or works for a caller that may give up. While this is `false`, a caller need not
/// check its flags.
#[inline(always)]
pub fn calls_may_end() -> bool {
    // Relaxed: the thread whose calls are to end learns it from the canceller, or has set it
    // itself.
    MAY_END.load(Ordering::Relaxed)
}

/// Makes [`calls_may_end`] return `true` from now on.
pub fn let_calls_end() {
    if !calls_may_end() {
        MAY_END.store(true, Ordering::Relaxed);
    }
}

impl Control {
    /// The flags that end this thread's waits for calls.
    #[inline]
    pub(crate) fn calls_ended_by(&self) -> u32 {
        match self.which(flag::FINISHES | flag::APART) {
            0 => ENDED_BY,
            flags => ended_by(flags),
        }
    }
}

#[cold]
fn ended_by(flags: u32) -> u32 {
    if flags & flag::FINISHES == 0 { flag::CANCELLED } else { 0 }
}

/// Whether the calls of the calling thread are to end: the thread was cancelled, or the caller of
/// the call that it runs has given up. Inside of [`finish`] they are not.
pub fn calls_end() -> bool {
    let me = control();
    me.has(me.calls_ended_by())
}

/// Runs `work`. Neither the thread's cancellation nor the caller of the call that it runs ends the
/// calls in it.
pub fn finish<R>(work: impl FnOnce() -> R) -> R {
    with_flag(flag::FINISHES, work)
}

/// Runs `work`. The calls in it are independent of the call that the thread runs: they go on if
/// that one's caller gives up.
pub fn apart<R>(work: impl FnOnce() -> R) -> R {
    with_flag(flag::APART, work)
}

fn with_flag<R>(flag: u32, work: impl FnOnce() -> R) -> R {
    struct Until(&'static Control, u32);
    impl Drop for Until {
        fn drop(&mut self) {
            self.0.set(self.1, false);
        }
    }
    let me = control();
    let _until = (!me.has(flag)).then(|| {
        me.set(flag, true);
        Until(me, flag)
    });
    work()
}

/// The caller of the call that thread `number` runs has given up. Ends the thread's wait for a call
/// of its own, and each that it begins from now on, if it is `still` at that call. `still` runs at
/// the thread's home, while the thread doesn't run.
pub fn unwanted(number: u64, still: impl FnOnce() -> bool + Send + 'static) {
    let_calls_end();
    if let Some(home) = registry::find(number).and_then(Control::home) {
        crate::sched::activations::at(home).inject(Box::new(move |own| own.is_unwanted(number, still)));
    }
}

impl Scheduler {
    fn is_unwanted(&self, number: u64, still: impl FnOnce() -> bool) {
        let thread = registry::find(number).filter(|thread| thread.home() == Some(self.number()));
        if let Some(thread) = thread.filter(|_| still()) {
            // The thread has paused in that call, so it stays with the call to its end. It serves
            // another call only with new flags.
            thread.set(flag::UNWANTED, true);
            self.give_up(thread, Woken::Cancelled);
        }
    }
}
