//! The line whose call a thread runs, for the room that made the line: whoever asks on a thread
//! that runs none finds none.

use crate::block::control::Control;
use crate::sched::scheduler::{self, Scheduler};
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
pub(crate) struct Served(Cell<Option<NonNull<Arc<dyn Line>>>>);

impl Served {
    pub(crate) const fn new() -> Self {
        Self(Cell::new(None))
    }

    /// A call of `line` begins, on the dispatcher `me`.
    #[inline]
    pub(crate) fn begins<'a>(
        &self,
        line: &'a Arc<dyn Line>,
        own: &'a Scheduler,
        me: &'static Control,
    ) -> Call<'a> {
        self.0.set(Some(NonNull::from(line)));
        Call { own, me, _line: line }
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

    fn line(&self) -> Option<Arc<dyn Line>> {
        // SAFETY: a `Call` borrows it, and empties this place at its end. What it lies in is on the
        // stack of the thread that asks.
        self.0.get().map(|line| unsafe { line.as_ref() }.clone())
    }
}

/// A call that runs. It borrows the line for as long as anybody finds it.
pub(crate) struct Call<'a> {
    own: &'a Scheduler,
    me: &'static Control,
    _line: &'a Arc<dyn Line>,
}

impl Call<'_> {
    /// It has ended. Says whether the thread is the dispatcher still.
    #[inline]
    pub(crate) fn ends(self) -> bool {
        self.own.is_dispatcher(self.me)
    }
}

impl Drop for Call<'_> {
    #[inline]
    fn drop(&mut self) {
        match self.own.is_dispatcher(self.me) {
            true => self.own.serving.ends(),
            // SAFETY: the calling thread's own; no reference outlives the statement.
            false => unsafe { self.me.served.get() }.ends(),
        }
    }
}

/// The line whose call the calling thread runs. None outside of a call, on a thread that a call has
/// started, and inside of [`blocking`](crate::blocking).
///
/// # Examples
/// ```
/// assert!(underpass_threads::served().is_none());
/// ```
pub fn served() -> Option<Arc<dyn Line>> {
    let (own, me) = scheduler::running()?;
    own.served_by(me)
}

impl Scheduler {
    pub(crate) fn served_by(&self, me: &'static Control) -> Option<Arc<dyn Line>> {
        match self.is_dispatcher(me) {
            true => self.serving.line(),
            // SAFETY: the calling thread's own; no reference outlives the statement.
            false => unsafe { me.served.get() }.line(),
        }
    }
}
