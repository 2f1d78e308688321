//! What the policy tells of itself.

use super::decision::DomainId;
use super::domain_entry::SCALE;
use super::node_policy::NodePolicy;
use super::obedience::Obedience;
use super::rules::Rules;

/// What a domain has, in processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainCounts {
    /// What it has, temporary ones included.
    pub running: u32,
    /// Those that others have lent it.
    pub temporary: u32,
    /// Those that it has lent.
    pub lent: u32,
    /// Those that it was asked for and still has.
    pub asked: u32,
    /// Those that it can use.
    pub demand: u32,
    /// The part of its minimum that it has for sure.
    pub minimum: u32,
    /// Its fair share, in thousandths of a processor.
    pub share_milli: u64,
    /// For how long it has wanted a processor, in ns.
    pub wanting_for: Option<u64>,
    /// Whether it obeys.
    pub obedience: Obedience,
}

impl NodePolicy {
    /// What a domain has, or `None` if it has left.
    #[must_use]
    pub fn counts(&self, domain: DomainId) -> Option<DomainCounts> {
        let index = self.find(domain)?;
        let entry = &self.domains[index as usize];
        let least = entry.record.gets_least();
        Some(DomainCounts {
            running: entry.running,
            temporary: entry.temporary,
            lent: entry.lent,
            asked: entry.asked,
            demand: entry.demand,
            minimum: entry.minimum,
            share_milli: (self.share(index) * 1000 / SCALE) as u64,
            wanting_for: entry.key.map(|key| self.now - key.since),
            obedience: if least { Obedience::GetsLeast } else { Obedience::Obeys },
        })
    }

    /// The processors of the machine.
    #[must_use]
    pub fn processors(&self) -> u32 {
        self.processors
    }

    /// The processors that no domain has.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.free
    }

    /// The processors that domains still have, and that the machine has no more.
    #[must_use]
    pub fn surplus(&self) -> u32 {
        self.surplus
    }

    /// Whether any domain wants a processor, so that [`look`](Self::look) is to be called.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        !self.wanting.is_empty() || self.surplus > 0 || !self.asks.is_empty()
    }

    /// For how long the present domains can make this one wait for its first processor, in ns.
    /// That supposes a `look` every `tick` ns, and victims that take as long as they may to give
    /// way. `None` if the domain has left.
    ///
    /// [The proof](super) has the reasons.
    #[must_use]
    pub fn longest_wait(&self, domain: DomainId, tick: u64) -> Option<u64> {
        let index = self.find(domain)?;
        let Rules { slice, credit, debt, grace, .. } = self.rules;
        let processors = u64::from(self.processors.max(1));
        let shared = processors.saturating_sub(u64::from(self.reserved)).max(1);
        let own_debt = debt * ((self.share(index) / SCALE) as u64 + 1);
        let owed = own_debt.saturating_mul(self.total_parts) / self.domains[index as usize].parts();
        let others = (debt + credit + slice) * self.live + debt * processors;
        let late = 2 * (grace + tick) * (self.live + 1) + slice;
        Some(owed.saturating_add(others) / shared + late)
    }
}
