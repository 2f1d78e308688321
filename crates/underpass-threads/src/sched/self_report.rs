//! A suspended thread that reports where it is, on processors whose stacks can't be read from
//! outside.

use crate::block::control::Control;
use std::cell::RefCell;

/// The most frames of one thread that are reported.
pub(crate) const FRAMES: usize = 128;
/// Bytes of its stack that a context needs to look at itself.
const ROOM: usize = 12 * 1024;

thread_local! {
    /// What the context that was last resumed to report has seen.
    static REPORTED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The calling thread, `me`, was resumed to report, and pauses again.
#[cold]
#[inline(never)]
pub(crate) fn report_own(me: &'static Control) {
    let here = std::ptr::from_ref(&me).addr();
    // SAFETY: its home asks it, and waits.
    let context = unsafe { me.context.get() }.as_deref();
    if context.is_some_and(|context| here.saturating_sub(context.bounds().0) > ROOM) {
        let mut frames = [0; FRAMES];
        let found = underpass_context::trace_here(&mut frames);
        REPORTED.with_borrow_mut(|reported| reported.extend_from_slice(&frames[..found]));
    }
}

/// Forgets what was reported before.
pub(crate) fn clear() {
    REPORTED.with_borrow_mut(Vec::clear);
}

/// What was reported since.
pub(crate) fn take() -> Vec<usize> {
    REPORTED.take()
}
