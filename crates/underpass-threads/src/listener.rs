//! A listener: the activation of one CPU that serves calls when their caller has donated that CPU's processor (URPC, 3.1.2).
//!
//! It returns the processor when it has nothing more to run: then every call of that client that was there has its reply, or waits for something
//! that this processor can do nothing for (3.1.3). A listener that calls on to another domain donates the processor to that one, and has it back for
//! what remains to be done: so one processor goes along a chain of calls and back.

use crate::outside;
use crate::scheduler::Scheduler;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use underpass_os::barrier;
use underpass_os::clock::now_ns;
use underpass_os::futex::{self, MOST_WORDS, Scope, Watched};
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
        if self.live() > 0 {
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

    /// Gives every processor back that was donated. Who `stays` looks for more before it sleeps.
    fn hand_back(&self, stays: bool) {
        let Some(cpu) = self.activation().listens_on() else { return };
        let mut left = false;
        // Taken out first: with the last of a line goes an implementation, whose destructor may come here again.
        let lent = self.listener.lent.take();
        for line in &lent {
            tally().returned();
            left |= line.pending();
            line.hand_back(cpu, stays);
        }
        if stays {
            self.listener.returned.replace(lent);
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

    /// Gives a donated processor on to a peer at which calls of ours wait without one, and sleeps until it comes back or there is something to
    /// do; says whether there was such a peer.
    fn pass_on(&'static self) -> bool {
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
        let donee = Donee { line: &***donee, alone: self.activation().is_alone(), forced: false };
        let ready = || self.busy() || self.timer_due() || self.stale();
        sleep_and_donate(self.activation().parker(), &awaited, Role::Guest, Some(donee), deadline, ready);
        awaited.iter().for_each(|line| line.leave(0));
        true
    }

    /// The lines on which replies are awaited, if any of its threads may wait for one. The others of the domain look at the calls.
    fn visit<'a>(&self, lines: &'a [Rc<Arc<dyn Line>>]) -> Vec<&'a dyn Line> {
        if self.live() == 0 {
            return Vec::new();
        }
        let awaited: Vec<_> = lines.iter().map(|line| &***line).filter(|line| line.awaits()).collect();
        awaited.iter().for_each(|line| line.enter());
        awaited
    }

    /// Threads keep a listener busy: it returns what it was lent before long, since its client waits for that with replies in hand perhaps, and goes on
    /// with a processor of our own (URPC, 3.1.3: the client has become underpowered).
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

    /// Sleeps until it comes to a processor: one that is donated, or one of our own, if there is something else to do.
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
            let came: Vec<_> = lines.iter().filter(|line| line.came(cpu)).cloned().collect();
            if !came.is_empty() {
                self.activation().lend();
                return self.borrow(came);
            }
            if self.live() > 0 {
                lines.iter().for_each(|line| {
                    line.poll();
                });
            }
            if self.busy() || self.timer_due() {
                let came = self.withdraw(cpu);
                if came.is_empty() {
                    return self.activation().stop_listening();
                }
                self.activation().lend();
                return self.borrow(came);
            }
        }
    }

    /// Gives way to those whose processors have just gone back; says whether one came again.
    fn stand_by(&self, cpu: usize) -> bool {
        let returned = self.listener.returned.take();
        if returned.is_empty() {
            return false;
        }
        stand_by();
        let came: Vec<_> = returned.into_iter().filter(|line| line.came(cpu)).collect();
        let any = !came.is_empty();
        if any {
            self.activation().lend();
            self.borrow(came);
        }
        any
    }

    /// It will not look for donated processors soon: nobody shall think that it does. Gives those that have come already.
    fn withdraw(&self, cpu: usize) -> Vec<Rc<Arc<dyn Line>>> {
        self.lines().iter().filter(|line| !line.ignore(cpu) && line.came(cpu)).cloned().collect()
    }

    /// As `withdraw`, on loan: those that have come are on loan too. Says whether there were any.
    fn take_up(&self) -> bool {
        let came = self.activation().listens_on().map(|cpu| self.withdraw(cpu)).unwrap_or_default();
        let any = !came.is_empty();
        if any {
            self.borrow(came);
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
        let mut watched = Vec::with_capacity(MOST_WORDS.min(lines.len() + awaited.len() + 1));
        watched.push(Watched { word: parker.word(), expected: Parker::SLEEPS, scope: Scope::Private });
        for line in awaited {
            if watched.len() == MOST_WORDS / 2 {
                line.set_aside();
            } else if let Some(expected) = line.park(false) {
                watched.push(Watched { word: line.word(), expected, scope: Scope::Shared });
            }
        }
        let mut came = false;
        for line in lines {
            if watched.len() == MOST_WORDS {
                came |= !line.ignore(cpu);
            } else if let Some((word, expected)) = line.listen(cpu) {
                watched.push(Watched { word, expected, scope: Scope::Shared });
            }
        }
        // Whatever others leave with a listener they leave by a read-modify-write, which is a full fence here, as `prepare` is: no
        // barrier is needed, but for replies. It takes no unstarted threads of others, which come with less.
        if !awaited.is_empty() {
            barrier::heavy();
            tally().entered_kernel(1);
        }
        let quiet = || awaited.iter().all(|line| line.quiet());
        if !came && !self.busy() && !self.timer_due() && !self.stale() && quiet() {
            tally().slept();
            futex::wait_any(&watched, deadline);
        }
    }

    fn borrow(&self, lines: Vec<Rc<Arc<dyn Line>>>) {
        let lasts = self.lasts();
        for line in &lines {
            tally().borrowed();
            line.borrow();
        }
        // Where all share one CPU, another processor of ours would take this one away.
        let lasts = lasts && lines.iter().any(|line| line.elsewhere());
        self.listener.lent.borrow_mut().extend(lines);
        if lasts {
            outside::invite();
        }
    }

    /// Notes that a processor has come. Whether so many have lately that one of our own is worth its wake-up.
    fn lasts(&self) -> bool {
        let now = now_ns();
        let soon = now - self.listener.last.replace(now) < LASTS;
        let row = if soon { self.listener.row.get() + 1 } else { 0 };
        self.listener.row.set(if row > ENOUGH { 0 } else { row });
        row > ENOUGH
    }
}
