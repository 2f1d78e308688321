//! A listener: the activation of one CPU that serves calls when their caller has donated that CPU's
//! processor (URPC, 3.1.2).
//!
//! It returns the processor when it has nothing more to run: then every call of that client that
//! was there has its reply, or waits for something that this processor can do nothing for (3.1.3).
//! A listener that calls on to another domain donates the processor to that one, and has it back
//! for what remains to be done: so one processor goes along a chain of calls and back. Between two
//! loans it listens on the stack of its dispatcher, where it has one (`next_loan`).

use crate::carrier;
use crate::control::Control;
use crate::hold::critical;
use crate::outside;
use crate::scheduler::Scheduler;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use underpass_os::barrier;
use underpass_os::clock::now_ns;
use underpass_os::futex::{self, MOST_WORDS, Scope, Watch, Watched, Woken};
use underpass_processor::{Donee, Line, Parker, Role, give_way, lines, sleep_and_donate, stand_by, tally};

/// Processors that come within this time of one another, in ns, show work that lasts.
const LASTS: u64 = 100_000;
/// More of them in a row than this have a processor of our own called for it.
const ENOUGH: u32 = 4;

/// What a listener knows. Its own.
#[derive(Default)]
pub(crate) struct Listener {
    /// Lines whose peers have donated the processor that it runs on.
    lent: RefCell<Vec<Rc<Arc<dyn Line>>>>,
    /// Lines whose peers have just got it back.
    returned: RefCell<Vec<Rc<Arc<dyn Line>>>>,
    /// When a processor came last, and how many have come in a row.
    last: Cell<u64>,
    row: Cell<u32>,
}

impl Scheduler {
    /// Whether this is a listener.
    #[inline]
    pub(crate) fn is_listener(&self) -> bool {
        self.activation().listens_on().is_some()
    }

    /// A listener's line to serve, by number.
    pub(crate) fn lent(&self, number: usize) -> Option<Rc<Arc<dyn Line>>> {
        self.listener.lent.borrow().get(number).cloned()
    }

    /// How many lines a listener has to serve.
    pub(crate) fn count_lent(&self) -> usize {
        self.listener.lent.borrow().len()
    }

    /// Whether calls wait that a listener is to serve.
    pub(crate) fn lent_pending(&self) -> bool {
        self.listener.lent.borrow().iter().any(|line| line.pending())
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
        // Not `wanted_soon`: who listens has no processor that anybody could ask for.
        if self.busy() {
            return;
        }
        if self.dispatcher.get().is_none() && self.lent_pending() {
            return self.begin_dispatcher();
        }
        if !self.pass_on() {
            self.hand_back(true);
            self.listen(cpu);
        }
    }

    /// The dispatcher has served all that it was lent a processor for. If that is all that this
    /// listener has to do, it gives the processor back and listens from here: the context that
    /// serves stays loaded (as a caller's does: URPC, footnote 1), and is at hand for the next
    /// loan. Says whether that has come; else others are to run.
    pub(crate) fn next_loan(&'static self, dispatcher: &'static Control) -> bool {
        let Some(cpu) = self.activation().listens_on().filter(|_| self.activation().is_lent()) else {
            return false;
        };
        if self.threads_wait() || self.busy() {
            return false;
        }
        // As in the scheduler, between two threads: what blocks here blocks in the kernel.
        let _held = critical();
        self.outside().current.clear();
        self.outside().out.set(dispatcher);
        if !self.lent_pending() {
            carrier::give_back_deep(dispatcher);
            self.stop_serving();
            self.hand_back(true);
            self.listen(cpu);
        }
        self.outside().out.clear();
        self.outside().current.set(dispatcher);
        self.activation().is_lent()
    }

    /// Whether threads that have started here wait for something: all that live here but the
    /// dispatcher, which as a rule runs if there is one.
    fn threads_wait(&self) -> bool {
        self.live() > u32::from(self.dispatcher.get().is_some())
    }

    /// Gives every processor back that was donated. Who `stays` looks for more before it sleeps.
    fn hand_back(&self, stays: bool) {
        let Some(cpu) = self.activation().listens_on() else { return };
        let mut left = false;
        // Taken out first: with the last of a line goes an implementation, whose destructor may
        // come here again.
        let lent = self.listener.lent.take();
        for line in &lent {
            tally().returned();
            left |= line.pending();
            line.hand_back(cpu, stays);
        }
        if stays {
            // Which is empty: the room for one loan serves for the next.
            self.listener.lent.replace(self.listener.returned.replace(lent));
        }
        if left {
            // Their client has called nobody else for them.
            outside::invite();
        }
    }

    /// Whether this runs on a processor that the peer of `line` has donated.
    pub(crate) fn is_lent_by(&self, line: &dyn Line) -> bool {
        self.listener.lent.borrow().iter().any(|lent| std::ptr::addr_eq(&raw const ***lent, line))
    }

    /// Gives a donated processor on to a peer at which calls of ours wait without one, and sleeps
    /// until it comes back or there is something to do; says whether there was such a peer.
    fn pass_on(&'static self) -> bool {
        if !self.threads_wait() {
            // What is owed somewhere another owes, and sees to.
            return false;
        }
        let lines = self.lines();
        let Some(donee) = lines.iter().find(|line| line.owed()) else { return false };
        if !self.activation().is_lent() {
            // What it runs on is a slot of ours, for which there is other use.
            lines.iter().filter(|line| line.owed()).for_each(|line| line.call());
            return false;
        }
        if self.take_up() {
            return true;
        }
        outside::follow(self.number());
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
        let donee = Donee { line: &***donee, forced: false };
        let role = Role::Guest { alone: self.activation().is_alone() };
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

    /// The lines on which replies are awaited, if any of its threads may wait for one. The others
    /// of the domain look at the calls.
    fn visit<'a>(&self, lines: &'a [Rc<Arc<dyn Line>>]) -> Vec<&'a dyn Line> {
        if !self.threads_wait() {
            return Vec::new();
        }
        let awaited: Vec<_> = lines.iter().map(|line| &***line).filter(|line| line.awaits()).collect();
        awaited.iter().for_each(|line| line.enter());
        awaited
    }

    /// Threads keep a listener busy: it returns what it was lent before long, since its client
    /// waits for that with replies in hand perhaps, and goes on with a processor of our own (URPC,
    /// 3.1.3: the client has become underpowered).
    ///
    /// Says whether it did.
    pub(crate) fn overstay(&self) -> bool {
        let late = self.activation().is_lent() && now_ns() - self.listener.last.get() > LASTS;
        if late {
            self.hand_back(false);
            if !self.take_up() {
                self.activation().stop_borrowing();
            }
        }
        late
    }

    /// Sleeps until it comes to a processor: one that is donated, or one of our own, if there is
    /// something else to do.
    fn listen(&'static self, cpu: usize) {
        outside::follow(self.number());
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

    /// Gives way to those whose processors have just gone back; says whether one came again.
    fn stand_by(&self, cpu: usize) -> bool {
        // Taken out, as in `hand_back`.
        let mut returned = self.listener.returned.take();
        if returned.is_empty() {
            return false;
        }
        stand_by();
        let any = self.comes_to(returned.drain(..).filter(|line| line.came(cpu)));
        self.listener.returned.replace(returned);
        any
    }

    /// It will not look for donated processors soon: nobody shall think that it does. Gives those
    /// that have come already.
    fn withdraw(&self, cpu: usize) -> Vec<Rc<Arc<dyn Line>>> {
        self.lines().iter().filter(|line| !line.ignore(cpu) && line.came(cpu)).cloned().collect()
    }

    /// As `withdraw`, on loan: those that have come are on loan too. Says whether there were any.
    fn take_up(&self) -> bool {
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
        let own = Watched { word: parker.word(), expected: Parker::SLEEPS, scope: Scope::Private };
        let mut watched = Watch::of(own);
        for line in awaited {
            if watched.len() == MOST_WORDS / 2 {
                line.set_unpolled();
            } else if let Some(expected) = line.park(false) {
                watched.push(Watched { word: line.word(), expected, scope: Scope::Shared });
            }
        }
        let mut came = false;
        for line in lines {
            if watched.is_full() {
                came |= !line.ignore(cpu);
            } else if let Some((word, expected)) = line.listen(cpu) {
                watched.push(Watched { word, expected, scope: Scope::Shared });
            }
        }
        // Whatever others leave with a listener they leave by a read-modify-write, which is a full
        // fence here, as `prepare` is: no barrier is needed, but for replies. It takes no unstarted
        // threads of others, which come with less.
        if !awaited.is_empty() {
            barrier::heavy();
            tally().entered_kernel(1);
        }
        if came || self.busy() || self.timer_due() || self.stale() || !quiet(awaited) {
            return;
        }
        // N10.
        let insists = |line: &&&dyn Line| line.insists(false).is_some();
        let after = awaited.iter().filter_map(|line| line.insists(false)).min();
        let until = deadline.into_iter().chain(after.map(|after| now_ns() + after)).min();
        tally().slept();
        let woken = match watched.wait(until) {
            Woken::Unsupported => without_waitv(cpu, own, lines, awaited, until),
            woken => woken,
        };
        if woken == Woken::Late {
            awaited.iter().filter(insists).for_each(|line| line.insist());
        }
    }

    /// Comes to the processor of those that `came`, if there are any; says whether there are.
    fn comes_to(&self, came: impl Iterator<Item = Rc<Arc<dyn Line>>>) -> bool {
        let mut came = came.peekable();
        let any = came.peek().is_some();
        if any {
            self.activation().lend();
            self.borrow(came);
        }
        any
    }

    fn borrow(&self, came: impl Iterator<Item = Rc<Arc<dyn Line>>>) {
        let lasts = self.lasts();
        // Taken out, as in `hand_back`: who filters them drops the others.
        let mut lent = self.listener.lent.take();
        let before = lent.len();
        lent.extend(came);
        for line in &lent[before..] {
            tally().borrowed();
            line.borrow();
        }
        // Where all share one CPU, another processor of ours would take this one away.
        let lasts = lasts && lent[before..].iter().any(|line| line.elsewhere());
        self.listener.lent.replace(lent);
        if lasts {
            outside::invite();
        }
    }

    /// Notes that a processor has come. Whether so many have lately that one of our own is worth
    /// its wake-up.
    fn lasts(&self) -> bool {
        let now = now_ns();
        let soon = now - self.listener.last.replace(now) < LASTS;
        let row = if soon { self.listener.row.get() + 1 } else { 0 };
        self.listener.row.set(if row > ENOUGH { 0 } else { row });
        row > ENOUGH
    }
}

fn quiet(awaited: &[&dyn Line]) -> bool {
    awaited.iter().all(|line| line.quiet())
}

/// Where a sleep can watch one word only, its `own`, a listener takes no processor, and the clerk
/// hears of replies.
#[cold]
fn without_waitv(
    cpu: usize,
    own: Watched<'_>,
    lines: &[Rc<Arc<dyn Line>>],
    awaited: &[&dyn Line],
    until: Option<u64>,
) -> Woken {
    let came = lines.iter().fold(false, |came, line| !line.ignore(cpu) | came);
    awaited.iter().for_each(|line| line.set_unpolled());
    barrier::heavy();
    tally().entered_kernel(1);
    if came || !quiet(awaited) {
        return Woken::Look;
    }
    futex::wait(own, until)
}
