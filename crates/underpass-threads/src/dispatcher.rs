//! The thread that takes incoming calls and runs them: each call on a thread of its own, without a switch unless it pauses.
//!
//! A dispatcher runs a procedure on its own stack. If the procedure pauses, that thread is the call's from then on, the
//! activation starts another dispatcher, and the first ends when its call has ended. So the stack of a dispatcher is the
//! E-stack of its call (LRPC), taken from the pool only when a call has come.
//!
//! Clients are served by turns: at most [`SHARE`] calls of a line, then the next line is looked at, and whoever dispatches next goes on there. So
//! while one client floods, another's call waits for `SHARE` of the flood's calls on each activation that serves, and not for those that the
//! flood has waiting.

use crate::control::Control;
use crate::outside;
use crate::scheduler::Scheduler;
use std::rc::Rc;
use std::sync::Arc;
use underpass_processor::{Line, Spin};

/// The most calls of one line in a row while others may wait.
const SHARE: u32 = 8;
/// Passes over the lines between two looks at timers and other activations.
const GLANCE: u32 = 64;

/// Serves calls until there are none for some time, or until another dispatches.
pub(crate) fn run(own: &'static Scheduler) {
    let me = own.current();
    let _office = Office { own, me };
    let mut spin = Spin::new(&own.habit);
    let mut passes = 0u32;
    loop {
        if own.stale() {
            own.lines();
        }
        let (mut served, mut pays, mut shares) = (false, false, false);
        let lent = own.activation().is_lent();
        for _ in 0..own.count_lines() {
            let Some(line) = own.next_line() else { break };
            served |= line.poll();
            // A listener does not wait: who has donated its processor does.
            pays |= !own.is_listener() && line.elsewhere();
            shares |= line.shares();
            if !lent && !own.may_serve(&**line) {
                continue;
            }
            for _ in 0..SHARE {
                if lent && own.overstay() {
                    break;
                }
                match own.serving(me, || line.serve()) {
                    None => return,
                    Some(false) => break,
                    Some(true) => served = true,
                }
                if spin.has_begun() {
                    line.spun(true);
                    spin.reset();
                }
                if own.wanted_soon() {
                    break;
                }
            }
        }
        passes = passes.wrapping_add(1);
        if passes.is_multiple_of(GLANCE) {
            own.passed(GLANCE);
        }
        if own.wanted_soon() || (passes.is_multiple_of(GLANCE) && own.wanted()) {
            own.yield_now();
            spin.reset();
        } else if served {
            spin.reset();
        } else if !pays || !spin.again(shares) {
            return;
        }
    }
}

/// What the dispatcher leaves when it ends, also if a line has panicked.
struct Office {
    own: &'static Scheduler,
    me: &'static Control,
}

impl Drop for Office {
    fn drop(&mut self) {
        // Else it has paused in a call, and another dispatches, or none.
        if self.own.is_dispatcher(self.me) {
            self.own.serving.set(false);
            self.own.retire_dispatcher();
        }
    }
}

impl Scheduler {
    /// How many lines the dispatcher serves by turns.
    fn count_lines(&self) -> usize {
        if self.activation().is_lent() { self.count_lent() } else { self.lines.borrow().len() }
    }

    /// The line whose turn it is, of those on loan or of all.
    #[inline]
    fn next_line(&self) -> Option<Rc<Arc<dyn Line>>> {
        let line = |number| if self.activation().is_lent() { self.lent(number) } else { self.line(number) };
        let turn = self.line_turn.get();
        let found = line(turn).map(|line| (line, turn)).or_else(|| Some((line(0)?, 0)));
        // Now, since a procedure that pauses has another dispatcher go on.
        found.map(|(line, number)| {
            self.line_turn.set(number + 1);
            line
        })
    }

    fn is_dispatcher(&self, control: &'static Control) -> bool {
        self.dispatcher.get().is_some_and(|dispatcher| std::ptr::eq(dispatcher, control))
    }

    /// The dispatcher has a procedure run by `serve`; says whether it is the dispatcher still.
    #[inline]
    fn serving(&self, me: &'static Control, serve: impl FnOnce() -> bool) -> Option<bool> {
        self.serving.set(true);
        let served = serve();
        self.is_dispatcher(me).then(|| {
            self.serving.set(false);
            served
        })
    }

    /// The dispatcher ends, having spun in vain or panicked.
    fn retire_dispatcher(&self) {
        self.dispatcher.set(None);
        outside::follow(self.number());
        self.tired.set(true);
    }

    /// A thread has paused while a procedure runs: if it is the dispatcher, it is that call's thread now, and another dispatches.
    #[cold]
    pub(crate) fn dispatcher_paused(&self, control: &'static Control) {
        if self.is_dispatcher(control) {
            self.dispatcher.set(None);
            self.serving.set(false);
            outside::follow(self.number());
        }
    }
}
