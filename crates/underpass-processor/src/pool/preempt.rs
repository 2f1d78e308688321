//! Holding preemption off, and the signal that ends a slice. This is Raven's deferral: one word
//! serves both.
//!
//! The word belongs to the calling kernel thread. If that is not an activation, nobody preempts it,
//! and the word only counts.
//!
//! A user-level thread may be on another kernel thread after a switch, which the compiler doesn't
//! know. If these functions were inlined before and after a switch, the address of the word would
//! be taken only once. So the functions that such threads use are not inlined.

use crate::permits::deferral::{self, UNMARKED};
use crate::{Activation, metrics};
use std::cell::Cell;
use std::sync::OnceLock;
use underpass_os::signal;
use underpass_seam::{LocalWord, preempt_flag};

/// The real-time signal that ends a slice.
pub const SIGNAL: i32 = 7;

thread_local! {
    /// The number of critical sections, and [`UNMARKED`].
    static WORD: LocalWord = const { LocalWord::new(UNMARKED) };
    static OWN: Cell<Option<&'static Activation>> = const { Cell::new(None) };
}

/// Begins a critical section: preemption is off until the matching [`enable`].
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

/// Ends a critical section. If it is the last one, and the activation was asked to give way
/// meanwhile, it gives way now.
#[inline(never)]
pub fn enable() {
    if WORD.with(deferral::leave) {
        answer();
    }
}

/// Begins a *brief* section: preemption is off until the matching [`end_brief`]. Until then no
/// other brief section may begin, and no thread may be suspended.
///
/// This costs a store. A critical section costs a call and a read-modify-write at either end, and
/// each read-modify-write waits for the one before.
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

/// Ends a brief section. If the activation was asked to give way meanwhile, it gives way now.
#[inline(always)]
pub fn end_brief() {
    if preempt_flag::end() {
        answer_late();
    }
}

/// A signal came during a brief section that has ended. Acts as if the signal came now, in a
/// critical section that then ends.
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

/// Exchanges a thread's critical sections for the one of its scheduler. Returns how many there
/// were, for [`resume`].
///
/// This and [`resume`] are inlined: into threads that stay on their kernel thread, and into
/// functions that switch once.
#[inline]
pub fn suspend() -> u32 {
    WORD.with(deferral::suspend)
}

/// Exchanges the scheduler's one critical section for the `held` ones of a thread. If there are
/// none, acts as [`enable`] does.
#[inline]
pub fn resume(held: u32) {
    if WORD.with(|word| deferral::resume(word, held)) {
        answer();
    }
}

/// A critical section, for as long as the value lives.
pub(crate) struct Critical(());

/// Begins a critical section.
pub(crate) fn critical() -> Critical {
    disable();
    Critical(())
}

impl Drop for Critical {
    fn drop(&mut self) {
        enable();
    }
}

/// Answers a mark that was found at the end of the last section.
#[cold]
#[inline(never)]
fn answer() {
    if preempt_flag::defer() {
        // The end of the brief section answers.
        return;
    }
    let give_way = || {
        if let Some(own) = OWN.get() {
            own.give_way();
        }
    };
    WORD.with(|word| deferral::answer(word, give_way));
}

/// Clears the mark, which has been answered or is about to be.
pub(crate) fn unmark() {
    WORD.with(deferral::unmark);
}

/// Runs in the signal handler: it uses only atomics, futexes and thread-local words.
fn on_signal() {
    let Some(own) = OWN.get() else { return };
    // The end of a brief section answers.
    if own.asked() && !preempt_flag::defer() {
        WORD.with(|word| deferral::on_signal(word, || own.give_way()));
    }
}

/// The number of the signal, if its handler could be installed. If not, an activation that is asked
/// gives way at its scheduling points only. Takes memory the first time.
pub(crate) fn number() -> Option<i32> {
    static INSTALLED: OnceLock<Option<i32>> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        let number = signal::realtime(SIGNAL);
        signal::install(number, on_signal).ok().map(|()| number)
    })
}

/// From now on the calling kernel thread is this activation, and can be preempted.
pub(crate) fn begin(own: &'static Activation) {
    OWN.set(Some(own));
    // So that the handler is not the first to use the thread-local word.
    debug_assert!(!disabled());
    // The kernel thread inherits a signal mask. If the signal stays blocked, it gives way at its
    // scheduling points only.
    let _ = signal::unblock(signal::realtime(SIGNAL));
}

/// From now on the calling kernel thread is not an activation.
pub(crate) fn leave() {
    OWN.set(None);
}

/// Whether the calling kernel thread is an activation that has given its permit up.
pub(crate) fn has_given_up() -> bool {
    OWN.get().is_some_and(|own| own.summoned() && !own.asked())
}

/// Sends the signal to an activation. Returns whether that was possible.
pub(crate) fn interrupt(activation: &Activation) -> bool {
    let (Some(number), Some(thread)) = (number(), activation.thread()) else { return false };
    metrics().entered_kernel(1);
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
        assert_eq!(WORD.with(LocalWord::get), 1, "marked, and preemption is off");
        enable();
        assert_eq!(WORD.with(LocalWord::get), UNMARKED);
        begin_brief();
        WORD.with(|word| word.keep(!UNMARKED));
        disable();
        enable();
        assert_eq!(WORD.with(LocalWord::get), 0, "marked, and preemption is off");
        end_brief();
        assert_eq!(WORD.with(LocalWord::get), UNMARKED);
    }

    #[test]
    fn the_last_section_answers_a_mark() {
        disable();
        disable();
        WORD.with(|word| word.keep(!UNMARKED));
        enable();
        assert_eq!(WORD.with(LocalWord::get), 1, "marked, and preemption is off");
        enable();
        assert_eq!(WORD.with(LocalWord::get), UNMARKED);
    }
}
