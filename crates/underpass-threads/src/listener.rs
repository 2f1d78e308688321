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
use underpass_os::clock::now_ns;
use underpass_os::futex::{self, MOST_WORDS, Scope, Watched};
use underpass_processor::{Line, Parker, tally};

/// Processors that come within this time of one another, in ns, show work that lasts.
const LASTS: u64 = 100_000;
/// More of them in a row than this have a processor of our own called for it.
const ENOUGH: u32 = 4;

/// What a listener knows. Its own.
#[derive(Default)]
pub(crate) struct Listener {
    /// Lines whose peers have donated the processor that it runs on.
    lent: RefCell<Vec<Rc<Arc<dyn Line>>>>,
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
        if !self.donate() {
            self.hand_back();
            self.listen(cpu);
        }
    }

    /// Gives every processor back that was donated.
    pub(crate) fn hand_back(&self) {
        for line in self.listener.lent.take() {
            tally().returned();
            line.hand_back();
        }
    }

    /// Threads keep a listener busy: it returns what it was lent before long, since its client waits for that with replies in hand perhaps, and goes on
    /// with a processor of our own (URPC, 3.1.3: the client has become underpowered).
    pub(crate) fn overstay(&self) {
        if self.activation().is_lent() && now_ns() - self.listener.last.get() > LASTS {
            self.hand_back();
            self.activation().stop_borrowing();
        }
    }

    /// Sleeps until it comes to a processor: one that is donated, or one of our own, if there is something else to do.
    fn listen(&'static self, cpu: usize) {
        outside::follow(self.number());
        self.activation().listen();
        loop {
            let lines = self.lines();
            self.sleep_for_processors(cpu, &lines);
            let came: Vec<_> = lines.iter().filter(|line| line.came(cpu)).cloned().collect();
            if !came.is_empty() {
                self.activation().lend();
                return self.borrow(came);
            }
            if self.busy() || self.timer_due() {
                return self.activation().stop_listening();
            }
        }
    }

    fn sleep_for_processors(&self, cpu: usize, lines: &[Rc<Arc<dyn Line>>]) {
        let deadline = self.timers().borrow().next();
        let parker = self.activation().parker();
        if !parker.prepare() {
            return;
        }
        let mut watched = Vec::with_capacity(MOST_WORDS.min(lines.len() + 1));
        watched.push(Watched { word: parker.word(), expected: Parker::SLEEPS, scope: Scope::Private });
        let words = lines.iter().filter_map(|line| line.listen(cpu)).take(MOST_WORDS - 1);
        watched.extend(words.map(|(word, expected)| Watched { word, expected, scope: Scope::Shared }));
        // Whatever others leave with a listener they leave by a read-modify-write, which is a full fence here, as `prepare` is: no
        // barrier is needed. It takes no unstarted threads of others, which come with less.
        if !self.busy() && !self.timer_due() && !self.stale() {
            tally().slept();
            futex::wait_any(&watched, deadline);
        }
        parker.wake_up();
    }

    fn borrow(&self, lines: Vec<Rc<Arc<dyn Line>>>) {
        let lasts = self.lasts();
        tally().borrowed();
        lines.iter().for_each(|line| line.borrow());
        // Where all share one CPU, another processor of ours would take this one away.
        let lasts = lasts && lines.iter().any(|line| line.elsewhere());
        *self.listener.lent.borrow_mut() = lines;
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
