//! What ends a thread's waits for the calls that it makes, beside deadlines: its own cancellation,
//! and that nobody wants the call any more that it runs.
//!
//! A thread that runs a call and has paused in it stays with it to its end (`dispatcher.rs`), so
//! what its home notes of that call is noted in the thread, and gone with it.

use crate::block::control::{Control, flag};
use crate::block::registry;
use crate::block::suspension::Woken;
use crate::sched::scheduler::Scheduler;
use crate::wait::me::control;
use underpass_seam::atomic::{AtomicBool, Ordering};

/// What ends the wait for a call that was not told otherwise.
const ENDED_BY: u32 = flag::CANCELLED | flag::UNWANTED;

/// Whether anything was ever done in this domain by which calls may be ended, or begun in vain.
static MAY_END: AtomicBool = AtomicBool::new(false);

/// Whether a call of this domain may have to heed more than its own terms: a thread was cancelled,
/// or works for somebody who may cease to want that. Not before: then who calls need not ask.
#[inline(always)]
pub fn calls_may_end() -> bool {
    // Relaxed: the thread whose calls are to be ended is told by who says so, or by itself.
    MAY_END.load(Ordering::Relaxed)
}

/// From now on [`calls_may_end`].
pub fn let_calls_end() {
    if !calls_may_end() {
        MAY_END.store(true, Ordering::Relaxed);
    }
}

impl Control {
    /// The flags that end its waits for calls.
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

/// Whether calls of the calling thread are to end: it was cancelled, or nobody wants the call any
/// more that it runs. Inside of [`finish`] they are not.
pub fn calls_end() -> bool {
    let me = control();
    me.has(me.calls_ended_by())
}

/// Runs `work`, whose calls are ended neither by the thread's cancellation nor because nobody wants
/// the call that it runs.
pub fn finish<R>(work: impl FnOnce() -> R) -> R {
    with_flag(flag::FINISHES, work)
}

/// Runs `work`, whose calls are not made for the call that the thread runs: they go on though
/// nobody wants that any more.
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

/// Nobody wants the call any more that thread `number` runs. Ends its wait for a call of its own,
/// and each that it begins from now on, if it is `still` at that call: asked at its home, while it
/// doesn't run.
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
            // It has paused in that call, so it is the call's to the end, and another's only
            // afresh.
            thread.set(flag::UNWANTED, true);
            self.give_up(thread, Woken::Cancelled);
        }
    }
}
