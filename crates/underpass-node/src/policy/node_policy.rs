//! The state of the policy: which domains come and go, what is wanted, and how time passes.

use super::decision::{Decision, DomainId};
use super::domain_entry::{DomainEntry, WantKey};
use super::loans::Loans;
use super::obedience::{Disobedience, ObedienceChange, ProcessorTime};
use super::preemption::Asks;
use super::rules::{Rules, Terms};
use std::collections::BTreeSet;

/// Divides the processors of a machine among domains. [The module's page](super) has the rules and
/// the proof.
///
/// Every method takes the time, in ns from any moment on, and appends what is to be done to `out`.
/// A name of a domain that has left does nothing.
///
/// # Examples
///
/// Two domains compete for one processor, and one of them counts twice:
/// ```
/// use underpass_node::{Decision, NodePolicy, Rules, Terms};
///
/// let mut policy = NodePolicy::new(1, Rules::default());
/// let mut out = Vec::new();
/// let once = policy.register(Terms::default(), 0, &mut out);
/// let twice = policy.register(Terms { weight: 2, ..Terms::default() }, 0, &mut out);
/// policy.report(once, 1, 0, 0, &mut out);
/// policy.report(twice, 1, 0, 0, &mut out);
///
/// let mut times = [0_u32; 2];
/// for ms in 1..=900 {
///     policy.look(ms * 1_000_000, &mut out);
///     for decision in std::mem::take(&mut out) {
///         if let Decision::Ask { victim, .. } = decision {
///             policy.gave_way(victim, ms * 1_000_000, &mut out);
///         }
///     }
///     out.clear();
///     times[0] += policy.counts(once).unwrap().running;
///     times[1] += policy.counts(twice).unwrap().running;
/// }
/// assert!(times[0].abs_diff(300) < 20 && times[1].abs_diff(600) < 20, "{times:?}");
/// ```
#[derive(Debug)]
pub struct NodePolicy {
    pub(super) rules: Rules,
    pub(super) processors: u32,
    /// Processors that no domain has.
    pub(super) free: u32,
    /// Processors that domains have and that the machine has no more.
    pub(super) surplus: u32,
    pub(super) domains: Vec<DomainEntry>,
    vacant: Vec<u32>,
    /// The domains that want a processor, in the order in which they get one.
    pub(super) wanting: BTreeSet<WantKey>,
    /// The domains that have processors or for which one is on its way, and where each place stands
    /// in this list.
    pub(super) holders: Vec<u32>,
    holder_at: Vec<u32>,
    pub(super) loans: Loans,
    pub(super) asks: Asks,
    pub(super) now: u64,
    /// The time during which domains wanted more processors than there are.
    pub(super) contended: u64,
    /// The service that a domain has had by now that always got its fair share, divided by its
    /// weight.
    pub(super) virtual_now: i128,
    /// The level of fair shares, and how fast `virtual_now` grows.
    pub(super) level: i128,
    pub(super) speed: i128,
    /// When the level is found anew: if demands have changed, and in any case.
    pub(super) level_stale_at: u64,
    pub(super) level_due_at: u64,
    /// Whether demands have changed since the level was found.
    pub(super) stale: bool,
    pub(super) total_demand: u64,
    /// How many domains there are, and the parts of their weights.
    pub(super) live: u64,
    pub(super) total_parts: u64,
    /// The sum of all minimums that are given.
    pub(super) reserved: u32,
}

/// Says that a domain is not among the holders.
const NOWHERE: u32 = u32::MAX;

impl NodePolicy {
    /// A policy for so many processors, without domains.
    #[must_use]
    pub fn new(processors: u32, rules: Rules) -> Self {
        let rules = Rules { slice: rules.slice.max(1), debt: rules.debt.max(rules.slice), ..rules };
        Self {
            rules,
            processors,
            free: processors,
            surplus: 0,
            domains: Vec::new(),
            vacant: Vec::new(),
            wanting: BTreeSet::new(),
            holders: Vec::new(),
            holder_at: Vec::new(),
            loans: Loans::default(),
            asks: Asks::default(),
            now: 0,
            contended: 0,
            virtual_now: 0,
            level: 0,
            speed: 0,
            level_stale_at: 0,
            level_due_at: 0,
            stale: true,
            total_demand: 0,
            live: 0,
            total_parts: 0,
            reserved: 0,
        }
    }

    /// A domain comes. It wants nothing yet, and owes one slice, so that a domain gains nothing by
    /// leaving and coming again.
    pub fn register(&mut self, terms: Terms, now: u64, out: &mut Vec<Decision>) -> DomainId {
        self.advance(now);
        let index = self.vacant.pop().unwrap_or(self.domains.len() as u32);
        let generation = self.domains.get(index as usize).map_or(0, |last| last.generation.wrapping_add(1));
        let mut entry = DomainEntry::new(generation, terms, self.now);
        entry.virtual_time = self.virtual_now + entry.virtual_of(self.rules.slice);
        entry.charged_at = self.contended;
        self.live += 1;
        self.total_parts += entry.parts();
        if index as usize == self.domains.len() {
            self.domains.push(entry);
            self.holder_at.push(NOWHERE);
        } else {
            self.domains[index as usize] = entry;
        }
        self.fit_minimums();
        self.serve(out);
        DomainId { index, generation }
    }

    /// A domain has left, or died. Its processors are free, and what it has lent stays where it is.
    pub fn unregister(&mut self, domain: DomainId, now: u64, out: &mut Vec<Decision>) {
        self.advance(now);
        let Some(index) = self.find(domain) else { return };
        self.set_demand(index, 0);
        self.forget_asks(index);
        self.forget_loans(index);
        let running = std::mem::take(&mut self.domains[index as usize].running);
        self.domains[index as usize].live = false;
        self.live -= 1;
        self.total_parts -= self.domains[index as usize].parts();
        self.refile(index);
        (0..running).for_each(|_| self.put_back());
        self.vacant.push(index);
        self.fit_minimums();
        self.serve(out);
    }

    /// A domain says that so many of its threads are ready and wait for a processor, and for how
    /// long the first of them has waited, in ns (OThreads, 3.3: the ready queue size).
    ///
    /// Both are the domain's own words. The first is believed up to its maximum: it costs the
    /// domain its share. The second only says whether to believe the first.
    pub fn report(&mut self, domain: DomainId, ready: u32, waited: u64, now: u64, out: &mut Vec<Decision>) {
        self.advance(now);
        let Some(index) = self.find(domain) else { return };
        self.charge(index);
        let entry = &self.domains[index as usize];
        let asks = ready > 0 && (entry.running == 0 || waited >= self.rules.patience);
        let demand = entry.running.saturating_add(if asks { ready } else { 0 });
        self.set_demand(index, demand);
        self.serve(out);
    }

    /// The kernel's account of a domain since the last such account. Call it about ten times a
    /// second for each domain.
    pub fn account(&mut self, domain: DomainId, time: ProcessorTime, now: u64, out: &mut Vec<Decision>) {
        self.advance(now);
        let Some(index) = self.find(domain) else { return };
        self.charge(index);
        let most = self.virtual_now + self.most_debt(index);
        let entry = &mut self.domains[index as usize];
        let wants = entry.wants();
        let kept = entry.record.take_kept(time);
        let (fault, excess) = entry.record.judge(time, wants, self.now);
        // What it ran in excess it has had.
        let excess = entry.virtual_of(excess);
        entry.virtual_time = (entry.virtual_time + excess).min(most.max(entry.virtual_time));
        for _ in 0..kept {
            self.blame(index, Disobedience::KeptAProcessor, out);
        }
        match fault {
            Some(fault) => self.blame(index, fault, out),
            None if kept > 0 => {}
            None => {
                let change = self.domains[index as usize].record.obeyed(self.now);
                self.changed_obedience(index, &change, None, out);
            }
        }
        self.refile(index);
        self.serve(out);
    }

    /// The machine has so many processors from now on.
    pub fn set_processors(&mut self, processors: u32, now: u64, out: &mut Vec<Decision>) {
        self.advance(now);
        for _ in self.processors..processors {
            self.put_back();
        }
        let gone = self.processors.saturating_sub(processors);
        let free = self.free.min(gone);
        self.free -= free;
        self.surplus += gone - free;
        self.processors = processors;
        self.stale = true;
        for index in 0..self.domains.len() as u32 {
            self.set_demand(index, self.domains[index as usize].demand);
        }
        self.fit_minimums();
        self.look(now, out);
    }

    /// Time has passed: ends slices, and calls for what victims still hold. While any domain wants
    /// a processor, call it at least every millisecond; otherwise there is no need.
    pub fn look(&mut self, now: u64, out: &mut Vec<Decision>) {
        self.advance(now);
        for at in 0..self.holders.len() {
            let index = self.holders[at];
            self.charge(index);
            self.refile(index);
        }
        self.seize_overdue(out);
        self.serve(out);
        self.withdraw_surplus(out);
        self.preempt(out);
    }

    /// The place of a domain, if it is still there.
    pub(super) fn find(&self, domain: DomainId) -> Option<u32> {
        let entry = self.domains.get(domain.index as usize)?;
        (entry.live && entry.generation == domain.generation).then_some(domain.index)
    }

    pub(super) fn id(&self, index: u32) -> DomainId {
        DomainId { index, generation: self.domains[index as usize].generation }
    }

    /// The domain can use so many processors. It was charged before.
    pub(super) fn set_demand(&mut self, index: u32, demand: u32) {
        let most = self.processors;
        let entry = &mut self.domains[index as usize];
        let demand = demand.min(entry.most()).min(most);
        self.total_demand = self.total_demand - u64::from(entry.demand) + u64::from(demand);
        self.stale |= demand != entry.demand;
        entry.demand = demand;
        self.refile(index);
    }

    /// Puts a domain where its counts and its virtual time say among those that want, and among
    /// those that hold.
    pub(super) fn refile(&mut self, index: u32) {
        let entry = &mut self.domains[index as usize];
        let wanted = entry.key.is_some();
        if entry.wants() && !wanted {
            entry.wants_since = self.now;
        }
        let key = entry.want_key(index, &self.rules);
        if entry.key != key {
            if let Some(old) = entry.key.take() {
                self.wanting.remove(&old);
            }
            self.wanting.extend(key);
            entry.key = key;
        }
        entry.record.always_wanted &= key.is_some();
        let holds = entry.running + entry.coming > 0;
        let at = self.holder_at[index as usize];
        if holds && at == NOWHERE {
            self.holder_at[index as usize] = self.holders.len() as u32;
            self.holders.push(index);
        } else if !holds && at != NOWHERE {
            self.holders.swap_remove(at as usize);
            self.holder_at[index as usize] = NOWHERE;
            if let Some(&moved) = self.holders.get(at as usize) {
                self.holder_at[moved as usize] = at;
            }
        }
    }

    /// Gives minimums as far as there is room, in the order of places. One processor stays without.
    fn fit_minimums(&mut self) {
        if self.reserved == 0 && self.domains.iter().all(|entry| entry.wanted_minimum() == 0) {
            return;
        }
        self.stale = true;
        let mut room = self.processors.saturating_sub(1);
        self.reserved = 0;
        for index in 0..self.domains.len() as u32 {
            let entry = &mut self.domains[index as usize];
            entry.minimum = entry.wanted_minimum().min(room);
            room -= entry.minimum;
            self.reserved += entry.minimum;
            self.refile(index);
        }
    }

    /// The domain did not obey.
    pub(super) fn blame(&mut self, index: u32, fault: Disobedience, out: &mut Vec<Decision>) {
        let change = self.domains[index as usize].record.strike(&self.rules, self.now);
        self.changed_obedience(index, &change, Some(fault), out);
    }

    fn changed_obedience(
        &mut self,
        index: u32,
        change: &ObedienceChange,
        fault: Option<Disobedience>,
        out: &mut Vec<Decision>,
    ) {
        let domain = self.id(index);
        match (change, fault) {
            (ObedienceChange::Demoted, Some(because)) => out.push(Decision::Demote { domain, because }),
            (ObedienceChange::Restored, _) => out.push(Decision::Restore { domain }),
            _ => return,
        }
        self.total_parts = self.domains.iter().filter(|entry| entry.live).map(DomainEntry::parts).sum();
        // Its weight has changed: what it owes or has saved up is forgotten, so that neither grows.
        self.domains[index as usize].virtual_time = self.virtual_now;
        self.set_demand(index, self.domains[index as usize].demand);
        self.stale = true;
        self.fit_minimums();
    }
}
