//! Holding preemption off, and what the signal does that ends a slice (Raven's deferral: one word
//! for both).
//!
//! The word belongs to the calling kernel thread. On one that is no activation, nobody preempts,
//! and it only counts.
//!
//! A user-level thread may be on another kernel thread after a switch, which the compiler doesn't
//! know: inlined before and after one, it would take the word's address once. So what such threads
//! use is not inlined.

use crate::deferral::{self, UNMARKED};
use crate::{Activation, tally};
use std::cell::Cell;
use std::sync::OnceLock;
use underpass_os::signal;
use underpass_seam::{LocalWord, preempt_flag};

/// Which of the real-time signals ends a slice.
pub const SIGNAL: i32 = 7;

thread_local! {
    /// How many critical sections there are, and [`UNMARKED`].
    static WORD: LocalWord = const { LocalWord::new(UNMARKED) };
    static OWN: Cell<Option<&'static Activation>> = const { Cell::new(None) };
}

/// Begins a critical section: preemption is off until the [`enable`] that goes with it.
///
/// # Examples
/// ```
/// use underpass_processor::preempt;
/// preempt::disable();
/// assert!(preempt::disabled());
/// preempt::enable();
/// assert!(!preempt::disabled());
/// ```
#[inline(never)]
pub fn disable() {
    WORD.with(LocalWord::increment);
}

/// Ends a critical section. If it is the last, and the activation was asked to give way meanwhile,
/// it does so now.
#[inline(never)]
pub fn enable() {
    if WORD.with(deferral::leave) {
        answer();
    }
}

/// Begins a *brief* section: preemption is off until the [`end_brief`] that goes with it. Meanwhile
/// no other brief section begins, and no thread is suspended.
///
/// Costs a store, where a critical section costs a call and a read-modify-write, each of which
/// waits for the one before.
///
/// # Examples
/// ```
/// use underpass_processor::preempt;
/// preempt::begin_brief();
/// assert!(preempt::disabled());
/// preempt::end_brief();
/// assert!(!preempt::disabled());
/// ```
#[inline(always)]
pub fn begin_brief() {
    preempt_flag::begin();
}

/// Ends a brief section. If the activation was asked to give way meanwhile, it does so now.
#[inline(always)]
pub fn end_brief() {
    if preempt_flag::end() {
        answer_late();
    }
}

/// A brief section has ended, and a signal came meanwhile: as if it came now, in a critical section
/// that ends.
#[cold]
#[inline(never)]
fn answer_late() {
    preempt_flag::clear();
    disable();
    WORD.with(|word| deferral::on_signal(word, || unreachable!("there is a critical section")));
    enable();
}

/// Whether preemption is off.
#[inline(never)]
pub fn disabled() -> bool {
    count() != 0 || preempt_flag::is_on()
}

#[inline]
fn count() -> u32 {
    WORD.with(deferral::count)
}

/// Leaves a thread's critical sections for those of its scheduler, which is one; gives how many
/// there were, for [`resume`].
///
/// It and [`resume`] are inlined: by threads that stay on their kernel thread, and into functions
/// that switch once.
#[inline]
pub fn suspend() -> u32 {
    WORD.with(deferral::suspend)
}

/// Goes from the scheduler's one critical section back to the `held` ones of a thread. If there are
/// none, as [`enable`].
#[inline]
pub fn resume(held: u32) {
    if WORD.with(|word| deferral::resume(word, held)) {
        answer();
    }
}

/// A critical section, while it lives.
pub(crate) struct Critical(());

/// Begins one.
pub(crate) fn critical() -> Critical {
    disable();
    Critical(())
}

impl Drop for Critical {
    fn drop(&mut self) {
        enable();
    }
}

/// The last section has ended and found a mark.
#[cold]
#[inline(never)]
fn answer() {
    if preempt_flag::defer() {
        // Its end answers.
        return;
    }
    let give_way = || {
        if let Some(own) = OWN.get() {
            own.give_way();
        }
    };
    WORD.with(|word| deferral::answer(word, give_way));
}

/// The mark has been answered, or is about to be.
pub(crate) fn unmark() {
    WORD.with(deferral::unmark);
}

/// In the signal handler: atomics, futexes and thread-local words only.
fn on_signal() {
    let Some(own) = OWN.get() else { return };
    // The end of a brief section answers.
    if own.asked() && !preempt_flag::defer() {
        WORD.with(|word| deferral::on_signal(word, || own.give_way()));
    }
}

/// The number of the signal, if this process could be given a handler for it: else who is asked
/// gives way at its scheduling points. Takes memory the first time.
pub(crate) fn number() -> Option<i32> {
    static INSTALLED: OnceLock<Option<i32>> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        let number = signal::realtime(SIGNAL);
        signal::install(number, on_signal).ok().map(|()| number)
    })
}

/// The calling kernel thread is this activation from now on, and can be preempted.
pub(crate) fn begin(own: &'static Activation) {
    OWN.set(Some(own));
    // The first look at the word is not the handler's.
    debug_assert!(!disabled());
    // It inherits a mask; without the signal it gives way at its scheduling points only.
    let _ = signal::unblock(signal::realtime(SIGNAL));
}

/// The calling kernel thread is no activation any more.
pub(crate) fn leave() {
    OWN.set(None);
}

/// Interrupts an activation; whether that could be done.
pub(crate) fn interrupt(activation: &Activation) -> bool {
    let (Some(number), Some(thread)) = (number(), activation.thread()) else { return false };
    tally().entered_kernel(1);
    thread.signal(number).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_nest() {
        disable();
        disable();
        enable();
        assert!(disabled());
        enable();
        assert!(!disabled());
    }

    #[test]
    fn a_threads_sections_wait_while_its_scheduler_runs() {
        disable();
        disable();
        let held = suspend();
        assert_eq!((held, count()), (2, 1));
        resume(held);
        assert_eq!(count(), 2);
        enable();
        enable();
        let held = suspend();
        assert_eq!((held, count()), (0, 1));
        resume(held);
        assert!(!disabled());
    }

    #[test]
    fn a_signal_waits_for_the_end_of_a_brief_section() {
        begin_brief();
        assert!(disabled() && preempt_flag::defer());
        end_brief();
        assert_eq!(WORD.with(LocalWord::get), UNMARKED, "answered");
        disable();
        begin_brief();
        assert!(preempt_flag::defer());
        end_brief();
        assert_eq!(WORD.with(LocalWord::get), 1, "marked, and held off");
        enable();
        assert_eq!(WORD.with(LocalWord::get), UNMARKED);
        begin_brief();
        WORD.with(|word| word.keep(!UNMARKED));
        disable();
        enable();
        assert_eq!(WORD.with(LocalWord::get), 0, "marked, and held off");
        end_brief();
        assert_eq!(WORD.with(LocalWord::get), UNMARKED);
    }

    #[test]
    fn the_last_section_answers_a_mark() {
        disable();
        disable();
        WORD.with(|word| word.keep(!UNMARKED));
        enable();
        assert_eq!(WORD.with(LocalWord::get), 1, "marked, and held off");
        enable();
        assert_eq!(WORD.with(LocalWord::get), UNMARKED);
    }
}
