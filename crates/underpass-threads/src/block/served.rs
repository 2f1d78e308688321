//! Which line the call came over that a thread runs.

use crate::block::control::Control;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use underpass_processor::Line;

/// A pointer to the line whose call is run. The line is borrowed on the stack of the dispatcher.
///
/// | whose | its writer |
/// |---|---|
/// | a scheduler's | the dispatcher, around each call; cleared when the dispatcher pauses in a call |
/// | a thread's | the scheduler, when the thread pauses in a call; the thread, when that call has ended |
#[derive(Debug, Default)]
pub(crate) struct ServedLine(Cell<Option<NonNull<Arc<dyn Line>>>>);

impl ServedLine {
    pub(crate) const fn new() -> Self {
        Self(Cell::new(None))
    }

    /// A call of `line` begins.
    #[inline]
    pub(crate) fn begins(&self, line: &Arc<dyn Line>) {
        self.0.set(Some(NonNull::from(line)));
    }

    #[inline]
    pub(crate) fn ends(&self) {
        self.0.set(None);
    }

    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        self.0.get().is_some()
    }

    /// The call goes on in `thread`, which has just paused. The caller is its home.
    pub(crate) fn goes_on_in(&self, thread: &'static Control) {
        // SAFETY: the caller is its home, which owns the field, and the thread doesn't run.
        unsafe { thread.served.get() }.0.set(self.0.take());
    }

    pub(crate) fn line(&self) -> Option<Arc<dyn Line>> {
        // SAFETY: a `ServedCall` borrows the line, and clears this pointer at its end. The line
        // lies on the stack of the asking thread.
        self.0.get().map(|line| unsafe { line.as_ref() }.clone())
    }
}
