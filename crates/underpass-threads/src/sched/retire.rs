//! The end of activations that were started in place of blocked ones and are no longer needed.

use crate::sched::scheduler::{OwnLines, Scheduler};
use crate::sched::stealing;
use std::rc::Rc;
use underpass_os::clock::now_ns;
use underpass_processor::lines::View;

impl Scheduler {
    /// When this activation is to end, in ns of the clock, if it is still not needed then. Called
    /// between two threads.
    pub(crate) fn ends_at(&self) -> Option<u64> {
        self.activation().ends_at().filter(|_| self.has_nothing())
    }

    /// Whether no thread lives here or is about to, and others have left nothing.
    fn has_nothing(&self) -> bool {
        self.live() == 0
            && !self.busy()
            && !self.is_dedicated()
            && self.outside().free.is_empty()
            && self.timers().borrow().next().is_none()
    }

    /// Takes the replies that have come for others, since this activation may have been woken for
    /// them. Returns whether there is anything to do for which it was woken.
    fn sees_something(&self) -> bool {
        let lines = self.lines();
        lines.iter().for_each(|line| {
            line.poll();
        });
        self.busy() || stealing::any() || lines.iter().any(|line| line.pending())
    }

    /// Whether this activation is to end now, after a sleep.
    pub(crate) fn is_due(&self) -> bool {
        self.ends_at().is_some_and(|at| at <= now_ns()) && !self.sees_something()
    }

    /// This activation has ended. A kernel thread that takes its place begins anew.
    pub(crate) fn ends(&self) {
        self.ended.set(true);
        let lines: OwnLines = self.lines.replace(Rc::new([]));
        self.view.replace(View::default());
        self.runners.trim();
        Self::leave();
        self.activation().leave();
        // This may drop the last reference to a line, and with it an implementation. Its destructor
        // runs here on what is a plain kernel thread by now.
        drop(lines);
    }
}
