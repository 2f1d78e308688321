//! One domain, as the policy knows it.

use super::obedience::Record;
use super::rules::{MOST_WEIGHT, PARTS, Rules, Terms};

/// The unit of virtual time: ns times this, divided by parts of a weight.
pub(super) const SCALE: i128 = 1 << 40;

/// Where a domain stands among those that want a processor: the least comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WantKey {
    /// Whether the domain has its minimum already.
    pub(super) has_minimum: bool,
    /// The virtual time that it will have after one slice on the processors that it has.
    pub(super) ahead: i128,
    /// Since when it has wanted one.
    pub(super) since: u64,
    pub(super) index: u32,
}

#[derive(Debug)]
pub(super) struct DomainEntry {
    pub(super) generation: u32,
    pub(super) live: bool,
    pub(super) terms: Terms,
    /// The part of `terms.minimum` that is given.
    pub(super) minimum: u32,
    /// The processors that it can use now.
    pub(super) demand: u32,
    /// The processors that it has, temporary ones and those that it was asked for included.
    pub(super) running: u32,
    /// Those of `running` that others have lent.
    pub(super) temporary: u32,
    /// Processors that it has lent.
    pub(super) lent: u32,
    /// Those of `running` that it was asked for.
    pub(super) asked: u32,
    /// Processors that others were asked for on its behalf.
    pub(super) coming: u32,
    /// The service that it has had under contention, divided by its weight.
    pub(super) virtual_time: i128,
    /// The contended time up to which `virtual_time` is right.
    pub(super) charged_at: u64,
    /// When it was last granted a processor.
    pub(super) gained_at: u64,
    /// Since when it has wanted a processor, if it does.
    pub(super) wants_since: u64,
    pub(super) key: Option<WantKey>,
    pub(super) record: Record,
}

impl DomainEntry {
    pub(super) fn new(generation: u32, terms: Terms, now: u64) -> Self {
        let weight = terms.weight.clamp(1, MOST_WEIGHT);
        Self {
            generation,
            live: true,
            terms: Terms { weight, ..terms },
            minimum: 0,
            demand: 0,
            running: 0,
            temporary: 0,
            lent: 0,
            asked: 0,
            coming: 0,
            virtual_time: 0,
            charged_at: 0,
            gained_at: now,
            wants_since: now,
            key: None,
            record: Record::new(now),
        }
    }

    /// The parts of its weight.
    pub(super) fn parts(&self) -> u64 {
        if self.record.gets_least() { 1 } else { u64::from(self.terms.weight) * PARTS }
    }

    /// The minimum that it is to have, as far as there is room.
    pub(super) fn wanted_minimum(&self) -> u32 {
        if self.record.gets_least() || !self.live { 0 } else { self.terms.minimum.min(self.terms.maximum) }
    }

    /// The most processors that it may have.
    pub(super) fn most(&self) -> u32 {
        if self.record.gets_least() { 1 } else { self.terms.maximum }
    }

    /// The processors that it will have once everything asked for has been done.
    pub(super) fn settled(&self) -> u32 {
        self.running + self.coming - self.asked
    }

    pub(super) fn wants(&self) -> bool {
        self.live && self.settled() < self.demand
    }

    /// So much service, as virtual time of this domain.
    pub(super) fn virtual_of(&self, service: u64) -> i128 {
        // 64 bits are divided much faster than 128.
        i128::from(service) * i128::from(SCALE as u64 / self.parts())
    }

    /// The virtual time after one slice on so many processors.
    pub(super) fn ahead(&self, processors: u32, rules: &Rules) -> i128 {
        self.virtual_time + self.virtual_of(rules.slice * u64::from(processors))
    }

    pub(super) fn want_key(&self, index: u32, rules: &Rules) -> Option<WantKey> {
        let settled = self.settled();
        self.wants().then(|| WantKey {
            has_minimum: settled >= self.minimum,
            ahead: self.ahead(settled, rules),
            since: self.wants_since,
            index,
        })
    }
}
