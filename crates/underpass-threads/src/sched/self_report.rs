//! A suspended thread that reports where it is. Used on architectures where a paused context can't
//! be traced from outside.

use crate::block::control::Control;
use std::cell::RefCell;

/// The most frames of one thread that are reported.
pub(crate) const FRAMES: usize = 128;
/// Bytes of stack that a context needs to trace itself.
const ROOM: usize = 12 * 1024;

thread_local! {
    /// The frames of the context that was last resumed to report.
    static REPORTED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Stores the frames of the calling thread, `me`, which was resumed to report and pauses again.
#[cold]
#[inline(never)]
pub(crate) fn report_own(me: &'static Control) {
    let here = std::ptr::from_ref(&me).addr();
    // SAFETY: its home has resumed it, and waits.
    let context = unsafe { me.context.get() }.as_deref();
    if context.is_some_and(|context| here.saturating_sub(context.bounds().0) > ROOM) {
        let mut frames = [0; FRAMES];
        let found = underpass_context::trace_here(&mut frames);
        REPORTED.with_borrow_mut(|reported| reported.extend_from_slice(&frames[..found]));
    }
}

/// Forgets the last report.
pub(crate) fn clear() {
    REPORTED.with_borrow_mut(Vec::clear);
}

/// Takes the frames that were reported since.
pub(crate) fn take() -> Vec<usize> {
    REPORTED.take()
}
