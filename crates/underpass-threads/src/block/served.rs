//! The line whose call a thread runs.

use crate::block::control::Control;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use underpass_processor::Line;

/// Where the line lies whose call is run, on the stack of its dispatcher.
///
/// | whose | who writes it |
/// |---|---|
/// | a scheduler's | the dispatcher, around each call; emptied when it pauses in one |
/// | a thread's | the scheduler, when the thread pauses in a call; the thread when that has ended |
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

    /// The call goes on in a thread that has just paused, and whose home the caller is.
    pub(crate) fn goes_on_in(&self, thread: &'static Control) {
        // SAFETY: its home owns it, and it doesn't run.
        unsafe { thread.served.get() }.0.set(self.0.take());
    }

    pub(crate) fn line(&self) -> Option<Arc<dyn Line>> {
        // SAFETY: a `Call` borrows it, and empties this place at its end. What it lies in is on the
        // stack of the thread that asks.
        self.0.get().map(|line| unsafe { line.as_ref() }.clone())
    }
}
