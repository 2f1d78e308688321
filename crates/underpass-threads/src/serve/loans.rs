//! The processors that a listener was lent: which lines it serves for them, and when it returns
//! them (URPC, 3.1.3). `README.md` has the policy, and its proof.

use crate::sched::activations;
use crate::sched::listener_state::Loan;
use crate::sched::scheduler::{SWITCHES, Scheduler};
use std::rc::Rc;
use std::sync::Arc;
use underpass_os::clock::now_ns;
use underpass_processor::{Line, Pool, ReturnPolicy, metrics};

/// Loans that come within this time of one another, in ns, show work that lasts.
const LASTS: u64 = 100_000;
/// If more than this many come in a row, a processor of our own is woken for the work.
const ENOUGH: u32 = 4;

impl Loan {
    fn of(line: Rc<Arc<dyn Line>>) -> Self {
        Self { line, policy: ReturnPolicy::new() }
    }

    /// Whether the processor goes back now.
    fn is_due(&self) -> bool {
        // If both domains have the same only CPU, a processor of our own is the one that was lent.
        let idle = || self.line.elsewhere() && Pool::get().is_some_and(Pool::has_idle_processor);
        self.policy.is_due(|| self.line.answered(), idle)
    }

    fn is_of(&self, line: &dyn Line) -> bool {
        std::ptr::addr_eq(&raw const **self.line, line)
    }
}

impl Scheduler {
    /// A line that a listener serves, by number.
    pub(crate) fn lent(&self, number: usize) -> Option<Rc<Arc<dyn Line>>> {
        self.listener.lent.borrow().get(number).map(|loan| loan.line.clone())
    }

    /// How many lines a listener serves.
    pub(crate) fn count_lent(&self) -> usize {
        self.listener.lent.borrow().len()
    }

    /// Whether calls wait that a listener is to serve.
    pub(crate) fn lent_pending(&self) -> bool {
        self.listener.lent.borrow().iter().any(|loan| loan.line.pending())
    }

    /// The current thread is about to post a reply over `line`. Returns whether this activation
    /// runs on a processor that the peer of `line` has donated.
    pub(crate) fn replies_on_loan(&self, line: &dyn Line) -> bool {
        let mut on_loan = false;
        for loan in self.listener.lent.borrow().iter().filter(|loan| loan.is_of(line)) {
            loan.policy.has_replied();
            on_loan = true;
        }
        if on_loan {
            // Either clause of the policy may hold from now on.
            self.look_at_loans_soon();
        }
        on_loan
    }

    /// Has the scheduler look at the loans as soon as the current thread pauses.
    pub(crate) fn look_at_loans_soon(&self) {
        self.switches.set(SWITCHES);
    }

    /// Whether the loan of `line` is due.
    pub(crate) fn loan_is_due(&self, line: &dyn Line) -> bool {
        self.listener.lent.borrow().iter().any(|loan| loan.is_of(line) && loan.is_due())
    }

    /// Gives back the processors that are due, while others are not. Returns whether all are due
    /// (or there are none): then none has gone back, since the caller returns them in its own way.
    pub(crate) fn return_due(&self) -> bool {
        let mut lent = self.listener.lent.borrow_mut();
        let mut due = Vec::new();
        let mut place = 0;
        while let Some(loan) = lent.get(place) {
            match loan.is_due() {
                true => due.push(lent.remove(place)),
                false => place += 1,
            }
        }
        if lent.is_empty() {
            lent.append(&mut due);
            return true;
        }
        drop(lent);
        if !due.is_empty() {
            self.give_back(&due, false);
        }
        false
    }

    /// Between two threads: returns the processors that are due. If nothing is on loan any more and
    /// threads are ready, they go on with a processor of our own.
    pub(crate) fn end_loans(&self) {
        if self.activation().is_lent() && self.return_due() && self.busy() {
            self.hand_back(false);
            if !self.take_up() {
                self.activation().stop_borrowing();
            }
        }
    }

    /// Gives back every processor that was donated. A listener that `stays` looks for more before
    /// it sleeps.
    pub(crate) fn hand_back(&self, stays: bool) {
        // Taken out first: dropping the last reference to a line may drop an implementation, and
        // its destructor may come here again.
        let lent = self.listener.lent.take();
        self.give_back(&lent, stays);
        if stays {
            // `returned` is empty: its memory serves for the next loan.
            self.listener.lent.replace(self.listener.returned.replace(lent));
        }
    }

    fn give_back(&self, loans: &[Loan], stays: bool) {
        let Some(cpu) = self.activation().listens_on() else { return };
        let mut left = false;
        for Loan { line, .. } in loans {
            metrics().returned();
            left |= line.pending();
            line.hand_back(cpu, stays);
        }
        if left {
            // The client has notified nobody else of these calls.
            activations::invite();
        }
    }

    /// From now on the processors of the lines that `came` are on loan.
    pub(crate) fn borrow(&self, came: impl Iterator<Item = Rc<Arc<dyn Line>>>) {
        let lasts = self.lasts();
        // Taken out, as in `hand_back`: the iterator that filters the lines drops the others.
        let mut lent = self.listener.lent.take();
        let before = lent.len();
        lent.extend(came.map(Loan::of));
        for Loan { line, .. } in &lent[before..] {
            metrics().borrowed();
            line.borrow();
        }
        // Where all share one CPU, another processor of ours would take this one away.
        let lasts = lasts && lent[before..].iter().any(|loan| loan.line.elsewhere());
        self.listener.lent.replace(lent);
        if lasts {
            activations::invite_or_want();
        }
    }

    /// Notes that a processor has come. Returns whether more than [`ENOUGH`] have come in a row
    /// within a short time, so that one of our own is worth its wake-up.
    fn lasts(&self) -> bool {
        let now = now_ns();
        let soon = now - self.listener.last.replace(now) < LASTS;
        let row = if soon { self.listener.row.get() + 1 } else { 0 };
        self.listener.row.set(if row > ENOUGH { 0 } else { row });
        row > ENOUGH
    }
}
