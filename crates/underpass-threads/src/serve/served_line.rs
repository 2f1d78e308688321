//! The line whose call the calling thread runs, for the crate that made the line.

use crate::block::control::Control;
use crate::sched::scheduler::{self, Scheduler};
use std::sync::Arc;
use underpass_processor::Line;

/// A call that runs. It borrows the line for as long as anybody can find it.
pub(crate) struct ServedCall<'a> {
    own: &'a Scheduler,
    me: &'static Control,
    _line: &'a Arc<dyn Line>,
}

impl ServedCall<'_> {
    /// The call has ended. Returns whether the thread is still the dispatcher.
    #[inline]
    pub(crate) fn ends(self) -> bool {
        self.own.is_dispatcher(self.me)
    }
}

impl Drop for ServedCall<'_> {
    #[inline]
    fn drop(&mut self) {
        match self.own.is_dispatcher(self.me) {
            true => self.own.serving.ends(),
            // SAFETY: the value is the calling thread's own, and no reference outlives the
            // statement.
            false => unsafe { self.me.served.get() }.ends(),
        }
    }
}

/// The line whose call the calling thread runs. `None` outside of a call, on a thread that a call
/// has started, and inside of [`blocking`](crate::blocking).
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
    /// A call of `line` begins, on the dispatcher `me`.
    #[inline]
    pub(crate) fn begins_call<'a>(&'a self, line: &'a Arc<dyn Line>, me: &'static Control) -> ServedCall<'a> {
        self.serving.begins(line);
        ServedCall { own: self, me, _line: line }
    }

    pub(crate) fn served_by(&self, me: &'static Control) -> Option<Arc<dyn Line>> {
        match self.is_dispatcher(me) {
            true => self.serving.line(),
            // SAFETY: the value is the calling thread's own, and no reference outlives the
            // statement.
            false => unsafe { me.served.get() }.line(),
        }
    }
}
