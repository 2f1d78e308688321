//! Processors that domains moved by themselves, in shared memory. The policy learns of it
//! afterwards.

use super::decision::{Decision, DomainId};
use super::node_policy::NodePolicy;

impl NodePolicy {
    /// Processors have changed hands: `holds` says how many each domain has by now. Domains that it
    /// does not name have what they had.
    ///
    /// What one domain has less and another one has more went from the one to the other. What is
    /// left over was given back, and is free; if the domain was asked for it, this is the answer.
    /// What a domain has more without any other's having less is in excess of the machine's
    /// processors, and is asked back.
    pub fn observe(&mut self, holds: &[(DomainId, u32)], now: u64, out: &mut Vec<Decision>) {
        self.advance(now);
        let mut less = Vec::new();
        let mut more = Vec::new();
        for &(domain, holds) in holds {
            let Some(index) = self.find(domain) else { continue };
            let running = self.domains[index as usize].running;
            less.extend((holds..running).map(|_| index));
            more.extend((running..holds).map(|_| index));
        }
        let moved = less.len().min(more.len());
        for (&from, &to) in less.iter().zip(&more) {
            self.note_transfer(from, to);
        }
        for &to in &more[moved..] {
            self.note_excess(to, out);
        }
        for &from in &less[moved..] {
            self.note_return(from, now, out);
        }
        self.serve(out);
    }

    /// Processors came to a domain and went on between two calls of [`observe`](Self::observe), so
    /// that it had them for `most` ns together at the most. It may have run for so long.
    pub fn note_passed(&mut self, domain: DomainId, most: u64, now: u64) {
        self.advance(now);
        if let Some(index) = self.find(domain) {
            self.domains[index as usize].record.pass(most);
        }
    }

    /// The domain did not go by what it was granted for some time, since it could not hear of that.
    /// What it ran meanwhile does not count.
    pub fn excuse(&mut self, domain: DomainId, now: u64) {
        self.advance(now);
        if let Some(index) = self.find(domain) {
            self.charge(index);
            self.domains[index as usize].record.excuse(now);
        }
    }

    /// A processor went from one domain to the other.
    fn note_transfer(&mut self, from: u32, to: u32) {
        self.charge(from);
        // Lemma 3: a domain is asked for no more than it has.
        if self.domains[from as usize].asked == self.domains[from as usize].running {
            self.withdraw_ask(from);
        }
        self.take_from(from);
        self.note_gain(to);
    }

    /// A domain has one more than it was granted.
    fn note_excess(&mut self, to: u32, out: &mut Vec<Decision>) {
        let excess = self.free == 0;
        match excess {
            true => self.surplus += 1,
            false => self.free -= 1,
        }
        self.note_gain(to);
        let entry = &self.domains[to as usize];
        if excess && entry.asked < entry.running {
            // The domain that has it is the one that gives it back.
            self.ask(to, None, false, out);
        }
    }

    fn note_gain(&mut self, to: u32) {
        self.charge(to);
        let now = self.now;
        let entry = &mut self.domains[to as usize];
        entry.running += 1;
        entry.gained_at = now;
        let demand = entry.demand.max(entry.running);
        self.set_demand(to, demand);
    }

    /// A domain has given a processor back.
    fn note_return(&mut self, from: u32, now: u64, out: &mut Vec<Decision>) {
        if self.domains[from as usize].asked > 0 {
            return self.gave_way(self.id(from), now, out);
        }
        self.charge(from);
        self.take_from(from);
        // It had nothing to do for it, so it wants none. Otherwise it would be the first to get it.
        let entry = &self.domains[from as usize];
        self.set_demand(from, entry.demand.min(entry.running));
        self.put_back();
    }
}
