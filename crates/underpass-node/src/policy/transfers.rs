//! How processors change hands without anybody being preempted: grants, returns and loans.

use super::decision::{Decision, DomainId};
use super::node_policy::NodePolicy;

impl NodePolicy {
    /// A domain has nothing to run on one of its processors, and gives it back.
    ///
    /// If the domain was asked for a processor, this is the answer. If others have lent it one, it
    /// goes back to a lender that wants it.
    pub fn release(&mut self, domain: DomainId, now: u64, out: &mut Vec<Decision>) {
        self.advance(now);
        let Some(index) = self.find(domain) else { return };
        self.charge(index);
        let (running, asked) = (self.domains[index as usize].running, self.domains[index as usize].asked);
        if running == 0 {
            return;
        }
        // It has no ready thread, so it can use what it has left.
        self.set_demand(index, running - 1);
        if asked > 0 {
            return self.gave_way(domain, now, out);
        }
        let lender = self.loans.lender(index).filter(|&lender| self.domains[lender as usize].wants());
        match lender {
            Some(lender) => self.return_loan(lender, index, out),
            None => {
                self.take_from(index);
                self.put_back();
            }
        }
        self.serve(out);
    }

    /// A thread of the domain begins a blocking call, and no thread is ready. The processor goes to
    /// the domain that is next, for as long as the call lasts, or becomes free.
    ///
    /// The domain calls [`recall`](Self::recall) when the thread goes on (OThreads, 3.3: handling
    /// blocking).
    pub fn lend(&mut self, domain: DomainId, now: u64, out: &mut Vec<Decision>) {
        self.advance(now);
        let Some(index) = self.find(domain) else { return };
        let entry = &self.domains[index as usize];
        let own = entry.running - entry.temporary;
        if own == 0 || entry.asked > 0 {
            return self.release(domain, now, out);
        }
        self.charge(index);
        self.set_demand(index, self.domains[index as usize].running - 1);
        match self.wanting.first().map(|key| key.index) {
            Some(to) => self.begin_loan(index, to, out),
            None => self.release(domain, now, out),
        }
    }

    /// A thread of `from` calls `to`, and gives it the processor for the call. `to` need not have
    /// said that it wants one. Does nothing if `from` has no processor that it may give (OThreads,
    /// 3.3: handling IPC).
    pub fn donate(&mut self, from: DomainId, to: DomainId, now: u64, out: &mut Vec<Decision>) {
        self.advance(now);
        let (Some(from), Some(to)) = (self.find(from), self.find(to)) else { return };
        let entry = &self.domains[from as usize];
        if from == to || entry.running - entry.temporary <= entry.asked {
            return;
        }
        self.charge(from);
        self.set_demand(from, self.domains[from as usize].demand.saturating_sub(1));
        self.begin_loan(from, to, out);
    }

    /// A thread of the domain goes on after a blocking call or a call to another domain, and needs
    /// a processor. A domain that has borrowed one of this domain is asked first.
    pub fn recall(&mut self, domain: DomainId, now: u64, out: &mut Vec<Decision>) {
        self.advance(now);
        let Some(index) = self.find(domain) else { return };
        self.charge(index);
        let demand = self.domains[index as usize].settled().max(self.domains[index as usize].demand) + 1;
        self.set_demand(index, demand);
        self.serve(out);
        if self.domains[index as usize].wants() {
            self.ask_borrower(index, out);
        }
    }

    /// Gives free processors to the domains that want them.
    pub(super) fn serve(&mut self, out: &mut Vec<Decision>) {
        while self.free > 0 {
            // A domain for which a victim was asked came first then, and still waits.
            let waits = self.asks.take_beneficiary(&mut self.domains);
            let Some(index) = waits.or_else(|| self.wanting.first().map(|key| key.index)) else { return };
            self.free -= 1;
            self.grant(index, out);
        }
    }

    /// The domain gets a processor that nobody has.
    pub(super) fn grant(&mut self, index: u32, out: &mut Vec<Decision>) {
        self.charge(index);
        let entry = &mut self.domains[index as usize];
        entry.running += 1;
        entry.gained_at = self.now;
        self.refile(index);
        out.push(Decision::Grant { to: self.id(index) });
    }

    /// A processor that no domain has is free, unless the machine has it no more.
    pub(super) fn put_back(&mut self) {
        if self.surplus > 0 {
            self.surplus -= 1;
        } else {
            self.free += 1;
        }
    }

    /// The domain, which was charged, has one processor less: one of its own, if it has any.
    pub(super) fn take_from(&mut self, index: u32) {
        let entry = &mut self.domains[index as usize];
        entry.running -= 1;
        if entry.temporary > entry.running {
            let lender = self.loans.lender(index).expect("each temporary processor is of a loan");
            self.end_loan(lender, index);
        }
        self.refile(index);
    }

    fn begin_loan(&mut self, from: u32, to: u32, out: &mut Vec<Decision>) {
        self.charge(to);
        let lender = &mut self.domains[from as usize];
        lender.running -= 1;
        lender.lent += 1;
        self.refile(from);
        let borrower = &mut self.domains[to as usize];
        borrower.running += 1;
        borrower.temporary += 1;
        let demand = borrower.demand.max(borrower.running);
        self.set_demand(to, demand);
        self.loans.begin(from, to);
        out.push(Decision::Lend { from: self.id(from), to: self.id(to) });
    }

    /// Ends a loan if there is one. The borrower's processor is its own from then on.
    pub(super) fn end_loan(&mut self, lender: u32, borrower: u32) {
        if self.loans.end(lender, borrower) {
            self.domains[lender as usize].lent -= 1;
            self.domains[borrower as usize].temporary -= 1;
        }
    }

    /// The borrower, which was charged, gives the lender its processor back. The slice that the
    /// lender had begun goes on.
    pub(super) fn return_loan(&mut self, lender: u32, borrower: u32, out: &mut Vec<Decision>) {
        self.charge(lender);
        self.end_loan(lender, borrower);
        self.take_from(borrower);
        self.domains[lender as usize].running += 1;
        self.refile(lender);
        out.push(Decision::Grant { to: self.id(lender) });
    }

    /// The domain leaves: what it has lent and borrowed is no loan any more.
    pub(super) fn forget_loans(&mut self, index: u32) {
        while let Some(borrower) = { self.loans.borrowers(index).next() } {
            self.end_loan(index, borrower);
        }
        while let Some(lender) = self.loans.lender(index) {
            self.end_loan(lender, index);
        }
    }
}
