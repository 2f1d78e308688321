//! What each domain is charged for its processors, and the fair level that this is compared with.

use super::domain_entry::SCALE;
use super::fair_level::{Contender, fair_level};
use super::node_policy::NodePolicy;

/// Finding the level of n domains may take as much time as n times this leaves, in ns: then it is
/// found less often.
const LEVEL_COST: u64 = 250;

impl NodePolicy {
    /// Time passes. A time before the last one is taken for the last one.
    pub(super) fn advance(&mut self, now: u64) {
        let passed = now.saturating_sub(self.now);
        if self.is_contended() {
            let due = if self.stale { self.level_stale_at } else { self.level_due_at };
            if self.now >= due {
                self.find_level();
            }
            self.contended += passed;
            self.virtual_now += self.speed * i128::from(passed);
        }
        self.now += passed;
    }

    /// Whether domains want more processors than there are.
    pub(super) fn is_contended(&self) -> bool {
        self.total_demand > u64::from(self.processors)
    }

    /// Finds the level of shares. Sets `virtual_now` forward to the mean of the domains that
    /// compete, so that together they owe what they have saved up.
    fn find_level(&mut self) {
        let wanting = self.wanting.iter().map(|key| key.index);
        let satisfied = self.holders.iter().copied().filter(|&index| !self.domains[index as usize].wants());
        let places: Vec<_> = wanting.chain(satisfied).collect();
        let contenders: Vec<_> = places.iter().map(|&index| self.contender(index)).collect();
        self.level = fair_level(&contenders, self.processors, self.level);
        let (mut sum, mut weight) = (0, 0);
        for (&index, contender) in places.iter().zip(&contenders) {
            if contender.competes(self.level) {
                self.charge(index);
                let parts = i128::from(contender.parts);
                sum += parts * (self.domains[index as usize].virtual_time - self.virtual_now);
                weight += parts;
            }
        }
        // It never goes back. If the mean is behind it, it waits for the mean.
        self.speed = if sum < 0 { 0 } else { self.level };
        if weight > 0 {
            self.virtual_now += (sum / weight).max(0);
        }
        let pause = places.len() as u64 * LEVEL_COST;
        self.level_stale_at = self.now + pause;
        self.level_due_at = self.now + pause.max(self.rules.slice / 4);
        self.stale = false;
    }

    pub(super) fn contender(&self, index: u32) -> Contender {
        let entry = &self.domains[index as usize];
        Contender { parts: entry.parts(), minimum: entry.minimum, demand: entry.demand }
    }

    /// The share of a domain at the present level, in processors times [`SCALE`].
    pub(super) fn share(&self, index: u32) -> i128 {
        let contender = self.contender(index);
        if self.is_contended() { contender.share(self.level) } else { i128::from(contender.demand) * SCALE }
    }

    /// Brings a domain's virtual time up to now.
    pub(super) fn charge(&mut self, index: u32) {
        let entry = &mut self.domains[index as usize];
        entry.record.hold(entry.running, self.now);
        let served = (self.contended - entry.charged_at) * u64::from(entry.running);
        entry.charged_at = self.contended;
        entry.virtual_time += entry.virtual_of(served);
        self.limit(index);
    }

    /// Limits what a domain owes, and what one has saved up that does not compete.
    fn limit(&mut self, index: u32) {
        let (contended, contender) = (self.is_contended(), self.contender(index));
        let most = self.virtual_now + self.most_debt(index);
        let entry = &mut self.domains[index as usize];
        entry.virtual_time = entry.virtual_time.min(most);
        let may_compete = entry.demand > 0 && (!contended || contender.competes(self.level));
        if !entry.wants() && !may_compete {
            let credit = if entry.record.gets_least() { 0 } else { self.rules.credit };
            entry.virtual_time = entry.virtual_time.max(self.virtual_now - entry.virtual_of(credit));
        }
    }

    /// The most that a domain can owe: as much for each processor of its share, and once more.
    pub(super) fn most_debt(&self, index: u32) -> i128 {
        let processors = (self.contender(index).share(self.level) / SCALE) as u64 + 1;
        self.domains[index as usize].virtual_of(self.rules.debt * processors)
    }
}
