//! A look of the server: what domains hold and want, and what follows.

use crate::page::layout::{SERVER, TransferKind, head};
use crate::page::{PageView, PageWords, Snapshot, ask_for, give, take};
use crate::policy::{Decision, DomainId};
use crate::server::member::RegisteredDomain;
use crate::server::node_server::NodeServer;
use std::sync::atomic::Ordering;
use underpass_os::Memory;
use underpass_os::clock::now_ns;

/// The time between two questions for the kernel's accounts, in ns.
const ACCOUNTS: u64 = 100_000_000;

/// An ask for a domain with a page, to which the victim may give the processor by itself.
#[derive(Debug)]
pub(super) struct AskedFor {
    victim: DomainId,
    to: DomainId,
    /// What `given_to` of the victim says once it has.
    given: u32,
}

/// What the server remembers of its looks.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// How many looks there were.
    pub(super) count: u64,
    /// How many domains want a processor.
    wanting: u64,
    /// The next look comes soon, though no domain wants a processor.
    stale: bool,
    accounted_at: u64,
    looked_at: u64,
    observed_at: u64,
}

impl Looks {
    /// Whether the next look comes after a tick.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanting > 0 || self.stale
    }

    /// Something has changed that the next look has to see.
    pub(super) fn stale(&mut self) {
        self.stale = true;
    }
}

impl NodeServer {
    pub(super) fn look(&mut self) {
        let now = now_ns();
        self.looks.count += 1;
        self.excuse_after_silence(now);
        // SYNC with the reads by the monitors of domains: it says that the server lives.
        self.page.word(head::HEARTBEAT).store(self.looks.count, Ordering::Release);
        // What was decided when domains came and went. The policy counts it as done.
        self.carry_out();
        self.take_returned();
        self.looks.stale = !self.observe(now);
        self.report(now);
        self.policy.look(now, &mut self.decided);
        self.carry_out();
        // SYNC with the reads by idle processors of domains: a hint.
        self.page.word(head::WANTED).store(self.looks.wanting, Ordering::Release);
        self.ring_idle_and_alone();
        if self.pinned.carry_out() {
            // The next look finds it done. Relaxed: this thread reads it.
            self.doorbell.fetch_add(1, Ordering::Relaxed);
        }
        // The kernel's accounts take long to read, and nobody waits for them.
        self.account(now);
        self.carry_out();
    }

    /// Domains that say that they are alone are excused if this server was silent indeed. One that
    /// says so while the server looks all the time is not.
    fn excuse_after_silence(&mut self, now: u64) {
        let before = std::mem::replace(&mut self.looks.looked_at, now);
        if now.saturating_sub(before) >= ACCOUNTS {
            let members = self.members.iter_mut();
            members.for_each(|member| member.excused |= member.page.read(head::ALONE) != 0);
        }
    }

    /// The registered domains.
    fn registered(&self) -> impl Iterator<Item = (&RegisteredDomain, DomainId)> {
        self.members.iter().filter_map(|member| Some((member, member.id?)))
    }

    /// Step 1: takes what domains have given back.
    fn take_returned(&self) {
        for (member, _) in self.registered() {
            let link = member.link(self.generation);
            for kind in TransferKind::ALL {
                while take(&self.page, &member.page, &link, kind, self.processors) {}
            }
        }
    }

    /// Steps 2 and 3: tells the policy what each domain holds. Returns `false` if the words change
    /// all the time.
    fn observe(&mut self, now: u64) -> bool {
        let since = now - std::mem::replace(&mut self.looks.observed_at, now);
        let parties: Vec<(usize, &Memory)> = std::iter::once((SERVER, &self.page))
            .chain(self.registered().map(|(member, _)| (member.place, &member.page)))
            .collect();
        // Read before the snapshot, which so has what they count.
        let answered = self.answered();
        let Some(seen) = Snapshot::take(&parties) else { return false };
        let most = self.processors;
        let mut holds = Vec::with_capacity(parties.len());
        let registered = self.members.iter_mut().filter(|member| member.id.is_some());
        for (party, member) in (1..).zip(registered) {
            member.held = seen.count(party, member.base, most);
            member.temporary = seen.temporary(party).min(most);
            let coming = seen.coming(party, most);
            let Some(id) = member.id else { continue };
            let has = (member.held + coming).min(most);
            let passed = member.passed(has, seen.given_to(party), most);
            self.policy.note_passed(id, since.saturating_mul(passed.into()), now);
            holds.push((id, has));
        }
        for (victim, to) in answered {
            self.policy.answered(victim, to, now);
        }
        self.asked_for.retain(|ask| self.policy.is_asked_for(ask.victim, ask.to));
        holds.extend(self.pinned.holds());
        self.policy.observe(&holds, now, &mut self.decided);
        true
    }

    /// Step 3: tells the policy what each domain wants.
    fn report(&mut self, now: u64) {
        let mut wanting = 0;
        for at in 0..self.members.len() {
            let Some(id) = self.members[at].id else { continue };
            let page = &self.members[at].page;
            let ready = u32::try_from(page.read(head::READY)).unwrap_or(u32::MAX);
            let since = page.read(head::WAITING_SINCE);
            let waited = if since == 0 { 0 } else { now.saturating_sub(since) };
            wanting += u64::from(ready > 0);
            self.policy.report(id, ready, waited, now, &mut self.decided);
        }
        let pinned = self.report_pinned(now);
        // SYNC with the reads by idle processors of domains: a hint. The server wants processors
        // for pinned domains.
        self.page.word(head::READY).store(pinned, Ordering::Release);
        self.looks.wanting = wanting + pinned;
        if self.looks.wanting > 0 && self.policy.free() == 0 {
            self.take_idle_pinned();
        }
    }

    /// Step 3: compares with the kernel's accounts.
    fn account(&mut self, now: u64) {
        if self.looks.wanting == 0 || now.saturating_sub(self.looks.accounted_at) < ACCOUNTS {
            return;
        }
        self.looks.accounted_at = now;
        for member in &mut self.members {
            let Some(id) = member.id else { continue };
            let excused = std::mem::take(&mut member.excused);
            match member.processor_time() {
                Some(time) if !excused => self.policy.account(id, time, now, &mut self.decided),
                _ => self.policy.excuse(id, now),
            }
        }
        self.account_pinned(now);
    }

    /// Step 4: does what the policy has decided.
    fn carry_out(&mut self) {
        for decision in std::mem::take(&mut self.decided) {
            if self.carry_out_pinned(&decision) {
                continue;
            }
            match decision {
                Decision::Grant { to } => self.with(to, |server, member| {
                    // It fails only if the domain itself has closed its row.
                    give(&server.page, &member.link(server.generation), TransferKind::Kept);
                }),
                Decision::Ask { victim, to } => {
                    // A program without the runtime has no page.
                    let of = |to: &RegisteredDomain| (to.place, to.generation);
                    let beneficiary = to.and_then(|to| self.member(to)).map(of);
                    self.note_ask(victim, to);
                    self.with(victim, |server, member| {
                        ask_for(&server.page, &member.link(server.generation), beneficiary);
                    });
                }
                Decision::Demote { domain, because } => self.with(domain, |_, member| {
                    eprintln!("underpass node: process {} gets the least: {because:?}", member.pid);
                }),
                Decision::Restore { domain } => self.with(domain, |_, member| {
                    eprintln!("underpass node: process {} has its weight again", member.pid);
                }),
                // What a victim kept is found by the next look. The server lends nothing itself.
                Decision::Seize { .. } | Decision::Lend { .. } => {}
            }
        }
    }

    /// Remembers how many processors the victim has to have given `to` when it has answered.
    fn note_ask(&mut self, victim: DomainId, to: Option<DomainId>) {
        let Some(to) = to else { return };
        let (Some(of_victim), Some(of_to)) = (self.member(victim), self.member(to)) else { return };
        let before = self.asked_for.iter().filter(|ask| ask.victim == victim && ask.to == to).count();
        let given = of_victim.given_to(of_to.place).wrapping_add(before as u32 + 1);
        self.asked_for.push(AskedFor { victim, to, given });
    }

    /// Which victims have given the domain for which they were asked a processor since.
    fn answered(&self) -> Vec<(DomainId, DomainId)> {
        let has_answered = |ask: &&AskedFor| {
            let (Some(victim), Some(to)) = (self.member(ask.victim), self.member(ask.to)) else {
                return false;
            };
            (victim.given_to(to.place).wrapping_sub(ask.given) as i32) >= 0
        };
        self.asked_for.iter().filter(has_answered).map(|ask| (ask.victim, ask.to)).collect()
    }

    /// Does something to the domain of this name, and wakes it.
    fn with(&self, id: DomainId, what: impl FnOnce(&Self, &RegisteredDomain)) {
        if let Some(member) = self.member(id) {
            what(self, member);
            self.wake(member.place);
        }
    }

    fn member(&self, id: DomainId) -> Option<&RegisteredDomain> {
        self.members.iter().find(|member| member.id == Some(id))
    }

    /// Step 5. A domain with `ALONE` set is rung as well.
    fn ring_idle_and_alone(&self) {
        let short = self.looks.wanting > 0 && self.policy.free() == 0;
        for (member, _) in self.registered() {
            let idle = short && member.page.read(head::RUNNING) < u64::from(member.held);
            if idle || member.page.read(head::ALONE) != 0 {
                self.notify(member);
            }
        }
    }
}
