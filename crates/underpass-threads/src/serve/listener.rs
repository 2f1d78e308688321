//! A listener: the activation of one CPU that serves calls when their caller has donated that CPU's
//! processor (URPC, 3.1.2).
//!
//! It returns the processor when all calls of that client have their replies, or the client has
//! become underpowered (3.1.3; `loans.rs`). It also returns it when it has nothing more to run: the
//! calls that are left wait for something for which this processor can do nothing.
//! A listener that calls on to another domain donates the processor to that one, and gets it back
//! for what remains. So one processor goes along a chain of calls and back. Between two loans the
//! listener waits on the stack of its dispatcher, if it has one (`next_loan`).

use crate::block::control::Control;
use crate::sched::activations;
use crate::sched::no_preempt::critical;
use crate::sched::runner;
use crate::sched::scheduler::Scheduler;
use std::rc::Rc;
use std::sync::Arc;
use underpass_os::barrier;
use underpass_os::clock::now_ns;
use underpass_os::futex::{self, FutexScope, MOST_WORDS, SleepEnd, Watch, Watched};
use underpass_processor::{
    DonateTo, Line, Parker, SleepRole, give_way, lines, metrics, sleep_and_donate, stand_by,
};

impl Scheduler {
    /// Whether this activation is a listener.
    #[inline]
    pub(crate) fn is_listener(&self) -> bool {
        self.activation().listens_on().is_some()
    }

    /// What the listener of `cpu` does when none of its threads can run.
    #[cold]
    pub(crate) fn idle_listener(&'static self, cpu: usize) {
        self.fire();
        if self.threads_wait() {
            self.lines().iter().for_each(|line| {
                line.poll();
            });
        }
        // Not `wanted_soon`: a listener has no processor that anybody could summon.
        if self.busy() {
            return;
        }
        if self.return_due() {
            self.ring_owed();
        } else if self.dispatcher.get().is_none() && self.lent_pending() {
            return self.begin_dispatcher();
        } else if self.pass_on() {
            return;
        }
        self.hand_back(true);
        self.listen(cpu);
    }

    /// The dispatcher has served everything for which it was lent a processor, or has to return
    /// one. If the listener has nothing else to do, it gives the processor back and listens from
    /// here. So the context that serves stays loaded (as a caller's does: URPC, footnote 1) for the
    /// next loan. Returns whether a processor is on loan. If not, others are to run.
    pub(crate) fn next_loan(&'static self, dispatcher: &'static Control) -> bool {
        let Some(cpu) = self.activation().listens_on().filter(|_| self.activation().is_lent()) else {
            return false;
        };
        if self.threads_wait() || self.busy() {
            return false;
        }
        // As in the scheduler, between two threads: a wait here sleeps in the kernel.
        let _held = critical();
        self.outside().current.clear();
        self.outside().in_blocking_call.set(dispatcher);
        if self.return_due() || !self.lent_pending() {
            runner::give_back_deep(dispatcher);
            self.stop_serving();
            self.hand_back(true);
            self.listen(cpu);
        }
        self.outside().in_blocking_call.clear();
        self.outside().current.set(dispatcher);
        self.activation().is_lent()
    }

    /// Whether threads that have started here wait for something. These are all threads that live
    /// here but the dispatcher, which runs as a rule.
    fn threads_wait(&self) -> bool {
        self.live() > u32::from(self.dispatcher.get().is_some())
    }

    /// Passes a donated processor on to a peer that has calls of ours and no processor. Sleeps
    /// until it comes back or there is something to do. Returns whether there was such a peer.
    fn pass_on(&'static self) -> bool {
        if !self.threads_wait() {
            // Calls that are owed belong to another activation, which handles them.
            return false;
        }
        if !self.activation().is_lent() {
            // It runs with a permit of our own domain, for which there is other use.
            self.ring_owed();
            return false;
        }
        let lines = self.lines();
        let Some(donee) = lines.iter().find(|line| line.owed()) else { return false };
        if self.take_up() {
            return true;
        }
        activations::follow(self.number());
        let look = || {
            lines.iter().for_each(|line| {
                line.poll();
            });
            self.busy() || self.timer_due() || self.stale()
        };
        if give_way(&***donee, look) {
            return true;
        }
        let awaited = self.visit(&lines);
        let deadline = self.timers().borrow().next();
        let donee = DonateTo { line: &***donee, forced: false };
        let role = SleepRole::ReplyWaiter { alone: self.activation().is_alone() };
        let ready = || self.busy() || self.timer_due() || self.stale();
        sleep_and_donate(
            self.activation().parker(),
            awaited.iter().copied(),
            role,
            Some(donee),
            deadline,
            ready,
        );
        awaited.iter().for_each(|line| line.leave(0));
        true
    }

    /// Notifies the peers that have calls of this listener's threads and no processor. It gives
    /// them none.
    fn ring_owed(&self) {
        if self.threads_wait() {
            self.lines().iter().filter(|line| line.owed()).for_each(|line| line.call());
        }
    }

    /// Enters the lines on which replies are awaited, if threads of this activation may wait for
    /// one. Other activations poll for calls.
    fn visit<'a>(&self, lines: &'a [Rc<Arc<dyn Line>>]) -> Vec<&'a dyn Line> {
        if !self.threads_wait() {
            return Vec::new();
        }
        let awaited: Vec<_> = lines.iter().map(|line| &***line).filter(|line| line.awaits()).collect();
        awaited.iter().for_each(|line| line.enter());
        awaited
    }

    /// Sleeps until it gets a processor: one that is donated, or one of our own if there is
    /// something else to do.
    fn listen(&'static self, cpu: usize) {
        activations::follow(self.number());
        self.activation().listen();
        if self.stand_by(cpu) {
            return;
        }
        loop {
            let lines = self.lines();
            self.sleep_for_processors(cpu, &lines);
            self.passed(lines::SLEEP);
            if self.comes_to(lines.iter().filter(|line| line.came(cpu)).cloned()) {
                return;
            }
            if self.threads_wait() {
                lines.iter().for_each(|line| {
                    line.poll();
                });
            }
            if self.busy() || self.timer_due() {
                if !self.comes_to(self.withdraw(cpu).into_iter()) {
                    self.activation().stop_listening();
                }
                return;
            }
        }
    }

    /// Gives way to the clients whose processors have just gone back. Returns whether one came
    /// again.
    fn stand_by(&self, cpu: usize) -> bool {
        // Taken out, as in `hand_back`.
        let mut returned = self.listener.returned.take();
        if returned.is_empty() {
            return false;
        }
        stand_by();
        let any = self.comes_to(returned.drain(..).map(|loan| loan.line).filter(|line| line.came(cpu)));
        self.listener.returned.replace(returned);
        any
    }

    /// Withdraws the offer to take donated processors: it will not look for them soon. Returns the
    /// lines whose processors have come already.
    fn withdraw(&self, cpu: usize) -> Vec<Rc<Arc<dyn Line>>> {
        self.lines().iter().filter(|line| !line.ignore(cpu) && line.came(cpu)).cloned().collect()
    }

    /// As `withdraw`, for a listener on loan: the processors that have come are lent to it too.
    /// Returns whether there were any.
    pub(crate) fn take_up(&self) -> bool {
        let came = self.activation().listens_on().map(|cpu| self.withdraw(cpu)).unwrap_or_default();
        let any = !came.is_empty();
        if any {
            self.borrow(came.into_iter());
        }
        any
    }

    /// It is about to block: gives back what it has been lent, and what comes at this moment.
    pub(crate) fn quit(&self) {
        self.take_up();
        self.hand_back(false);
    }

    fn sleep_for_processors(&self, cpu: usize, lines: &[Rc<Arc<dyn Line>>]) {
        let awaited = self.visit(lines);
        if self.activation().parker().prepare() {
            self.watch(cpu, lines, &awaited);
            self.activation().parker().wake_up();
        }
        awaited.iter().for_each(|line| line.leave(0));
    }

    fn watch(&self, cpu: usize, lines: &[Rc<Arc<dyn Line>>], awaited: &[&dyn Line]) {
        let deadline = self.timers().borrow().next();
        let parker = self.activation().parker();
        let own = Watched { word: parker.word(), expected: Parker::SLEEPS, scope: FutexScope::Private };
        let mut watched = Watch::of(own);
        for line in awaited {
            if watched.len() == MOST_WORDS / 2 {
                line.set_unpolled();
            } else if let Some(expected) = line.park(false) {
                watched.push(Watched { word: line.word(), expected, scope: FutexScope::Shared });
            }
        }
        let mut came = false;
        for line in lines {
            if watched.is_full() {
                came |= !line.ignore(cpu);
            } else if let Some((word, expected)) = line.listen(cpu) {
                watched.push(Watched { word, expected, scope: FutexScope::Shared });
            }
        }
        // Others leave work with a listener by a read-modify-write, which is a full fence here, as
        // `prepare` is. So no barrier is needed, except for replies. A listener takes no unstarted
        // threads of others, which come with weaker orderings.
        if !awaited.is_empty() {
            barrier::heavy();
            metrics().entered_kernel(1);
        }
        if came || self.busy() || self.timer_due() || self.stale() || !quiet(awaited) {
            return;
        }
        // N10.
        let notifies_again = |line: &&&dyn Line| line.notify_again_after(false).is_some();
        let after = awaited.iter().filter_map(|line| line.notify_again_after(false)).min();
        let until = deadline.into_iter().chain(after.map(|after| now_ns() + after)).min();
        metrics().slept();
        let woken = match watched.wait(until) {
            SleepEnd::Unsupported => without_waitv(cpu, own, lines, awaited, until),
            woken => woken,
        };
        if woken == SleepEnd::Late {
            awaited.iter().filter(notifies_again).for_each(|line| line.notify_again());
        }
    }

    /// Takes the processors of the lines that `came`, if there are any. Returns whether there are.
    fn comes_to(&self, came: impl Iterator<Item = Rc<Arc<dyn Line>>>) -> bool {
        let mut came = came.peekable();
        let any = came.peek().is_some();
        if any {
            self.activation().lend();
            self.borrow(came);
        }
        any
    }
}

fn quiet(awaited: &[&dyn Line]) -> bool {
    awaited.iter().all(|line| line.quiet())
}

/// For kernels on which a sleep can watch one word only, its `own`. A listener takes no donated
/// processor then, and the clerk polls for replies.
#[cold]
fn without_waitv(
    cpu: usize,
    own: Watched<'_>,
    lines: &[Rc<Arc<dyn Line>>],
    awaited: &[&dyn Line],
    until: Option<u64>,
) -> SleepEnd {
    let came = lines.iter().fold(false, |came, line| !line.ignore(cpu) | came);
    awaited.iter().for_each(|line| line.set_unpolled());
    barrier::heavy();
    metrics().entered_kernel(1);
    if came || !quiet(awaited) {
        return SleepEnd::Look;
    }
    futex::wait(own, until)
}
