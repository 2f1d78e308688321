//! How a domain is asked for a processor, and what follows.

use super::decision::{Decision, DomainId};
use super::domain_entry::DomainEntry;
use super::node_policy::NodePolicy;
use std::collections::{BinaryHeap, VecDeque};

/// A domain was asked for a processor.
#[derive(Clone, Copy, Debug)]
struct Ask {
    victim: u32,
    /// The domain that gets it. If there is none, the processor becomes free.
    to: Option<u32>,
    /// Whether `to` wants back what it has lent the victim.
    recalled: bool,
    since: u64,
}

/// What was asked for and not given yet, the oldest first. There is no more of it than processors.
#[derive(Debug, Default)]
pub(super) struct Asks {
    list: VecDeque<Ask>,
}

impl Asks {
    /// Some domain for which a victim was asked. What the victim gives will be free.
    pub(super) fn take_beneficiary(&mut self, domains: &mut [DomainEntry]) -> Option<u32> {
        let to = self.list.iter_mut().find_map(|ask| ask.to.take())?;
        domains[to as usize].coming -= 1;
        Some(to)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Where the ask of this victim for this domain is. The domain may have come to another
    /// processor since, so that the ask is for nobody.
    fn position(&self, victim: u32, to: u32) -> Option<usize> {
        let of = |to| self.list.iter().position(|ask| ask.victim == victim && ask.to == to);
        of(Some(to)).or_else(|| of(None))
    }

    /// If the victim was asked for a processor for this domain, it is asked no more.
    fn take_for(&mut self, victim: u32, to: u32) -> Option<Ask> {
        self.position(victim, to).and_then(|at| self.list.remove(at))
    }

    fn take_of(&mut self, victim: u32) -> Option<Ask> {
        let at = self.list.iter().position(|ask| ask.victim == victim)?;
        self.list.remove(at)
    }
}

impl NodePolicy {
    /// A domain that was asked for a processor has stopped running there.
    ///
    /// A domain that was not asked, or that comes too late, changes nothing.
    pub fn gave_way(&mut self, victim: DomainId, now: u64, out: &mut Vec<Decision>) {
        self.advance(now);
        let Some(index) = self.find(victim) else { return };
        let Some(ask) = self.asks.take_of(index) else { return };
        self.charge(index);
        self.hand_over(ask, out);
        self.serve(out);
    }

    /// The victim has given the domain `to` the processor by itself for which it was asked. Call it
    /// before [`observe`](Self::observe) says who has the processor by now: `to` may have given it
    /// on.
    ///
    /// If the victim was not asked for that, or has been blamed already, nothing changes.
    pub fn answered(&mut self, victim: DomainId, to: DomainId, now: u64) {
        self.advance(now);
        let (Some(victim), Some(to)) = (self.find(victim), self.find(to)) else { return };
        let Some(ask) = self.asks.take_for(victim, to) else { return };
        self.domains[victim as usize].asked -= 1;
        self.refile(victim);
        if ask.to.is_some() {
            self.domains[to as usize].coming -= 1;
            self.refile(to);
        }
    }

    /// Whether the victim was asked for a processor for the domain `to`, and has not answered.
    #[must_use]
    pub fn is_asked_for(&self, victim: DomainId, to: DomainId) -> bool {
        let (Some(victim), Some(to)) = (self.find(victim), self.find(to)) else { return false };
        self.asks.position(victim, to).is_some()
    }

    /// Takes an ask of this victim back.
    pub(super) fn withdraw_ask(&mut self, victim: u32) {
        let Some(ask) = self.asks.take_of(victim) else { return };
        self.domains[victim as usize].asked -= 1;
        if let Some(to) = ask.to {
            self.domains[to as usize].coming -= 1;
            self.refile(to);
        }
        self.refile(victim);
    }

    /// The processor of an ask changes hands.
    fn hand_over(&mut self, ask: Ask, out: &mut Vec<Decision>) {
        let victim = &mut self.domains[ask.victim as usize];
        victim.asked -= 1;
        let recalled = ask.recalled && ask.to.is_some();
        let Some(to) = ask.to else {
            self.take_from(ask.victim);
            return self.put_back();
        };
        self.domains[to as usize].coming -= 1;
        if recalled {
            return self.return_loan(to, ask.victim, out);
        }
        self.take_from(ask.victim);
        self.grant(to, out);
    }

    /// Takes the processors of victims that did not give way in time.
    pub(super) fn seize_overdue(&mut self, out: &mut Vec<Decision>) {
        while let Some(&ask) = self.asks.list.front() {
            if ask.since + self.rules.grace > self.now {
                return;
            }
            self.asks.list.pop_front();
            self.charge(ask.victim);
            out.push(Decision::Seize { victim: self.id(ask.victim) });
            self.hand_over(ask, out);
            // It is blamed once the kernel's account says whether it could have obeyed.
            self.domains[ask.victim as usize].record.keep();
        }
    }

    /// Asks for the processors that the machine has no more.
    pub(super) fn withdraw_surplus(&mut self, out: &mut Vec<Decision>) {
        let under_way = self.asks.list.iter().filter(|ask| ask.to.is_none()).count() as u32;
        if self.surplus <= under_way {
            return;
        }
        let mut victims = self.victims();
        for _ in under_way..self.surplus {
            let Some((_, _, index)) = victims.pop() else { return };
            self.ask(index, None, false, out);
            victims.extend(self.as_victim(index));
        }
    }

    /// Asks domains that have had more than their share to give way to those that have had less.
    pub(super) fn preempt(&mut self, out: &mut Vec<Decision>) {
        if self.wanting.is_empty() {
            return;
        }
        let mut victims = self.victims();
        while let (Some(&next), Some(&(above, ahead, index))) = (self.wanting.first(), victims.peek()) {
            let victim = &self.domains[index as usize];
            // A domain beyond its minimum gives way to one below its own.
            let owed = above && !next.has_minimum;
            if !owed && ahead <= next.ahead {
                return;
            }
            let urgent = owed || {
                let next = &self.domains[next.index as usize];
                ahead > next.ahead(next.settled() + 1, &self.rules)
            };
            let ended = victim.gained_at + self.rules.slice <= self.now;
            victims.pop();
            if index != next.index && (urgent || ended) {
                self.ask(index, Some(next.index), false, out);
                victims.extend(self.as_victim(index));
            }
        }
    }

    /// The borrower of one of this domain's processors is asked for it, unless each was already.
    pub(super) fn ask_borrower(&mut self, lender: u32, out: &mut Vec<Decision>) {
        let recalled = |ask: &&Ask| ask.recalled && ask.to == Some(lender);
        let under_way = self.asks.list.iter().filter(recalled).count();
        let mut borrowers = self.loans.borrowers(lender).skip(under_way);
        let found = borrowers.find(|&borrower| {
            let entry = &self.domains[borrower as usize];
            entry.asked < entry.running
        });
        drop(borrowers);
        if let Some(borrower) = found {
            self.ask(borrower, Some(lender), true, out);
        }
    }

    /// The domain leaves: what it was asked for is free, and nothing comes for it.
    pub(super) fn forget_asks(&mut self, index: u32) {
        for ask in &mut self.asks.list {
            if ask.to == Some(index) {
                ask.to = None;
            }
            if ask.victim == index
                && let Some(to) = ask.to
            {
                self.domains[to as usize].coming -= 1;
            }
        }
        let to: Vec<u32> =
            self.asks.list.iter().filter(|ask| ask.victim == index).filter_map(|ask| ask.to).collect();
        self.asks.list.retain(|ask| ask.victim != index);
        to.into_iter().for_each(|to| self.refile(to));
        let entry = &mut self.domains[index as usize];
        (entry.asked, entry.coming) = (0, 0);
    }

    pub(super) fn ask(&mut self, victim: u32, to: Option<u32>, recalled: bool, out: &mut Vec<Decision>) {
        self.asks.list.push_back(Ask { victim, to, recalled, since: self.now });
        self.domains[victim as usize].asked += 1;
        self.refile(victim);
        if let Some(to) = to {
            self.domains[to as usize].coming += 1;
            self.refile(to);
        }
        out.push(Decision::Ask { victim: self.id(victim), to: to.map(|to| self.id(to)) });
    }

    /// All domains that could be asked for a processor. The one that is ahead of the others, with
    /// one processor less, comes first.
    fn victims(&self) -> BinaryHeap<(bool, i128, u32)> {
        self.holders.iter().filter_map(|&index| self.as_victim(index)).collect()
    }

    /// Whether the domain has more than its minimum, how far ahead it would be with one processor
    /// less, and its place.
    fn as_victim(&self, index: u32) -> Option<(bool, i128, u32)> {
        let entry = &self.domains[index as usize];
        let settled = entry.settled();
        if entry.asked >= entry.running || settled == 0 {
            return None;
        }
        let above = settled > entry.minimum;
        let ahead = if above { entry.ahead(settled - 1, &self.rules) } else { i128::MIN };
        Some((above, ahead, index))
    }
}
