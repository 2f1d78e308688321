//! The surveyor's side of one pinned domain.

use crate::pinned::cpu_choice::choose;
use crate::pinned::members::{DomainMembers, ProcessTree};
use crate::pinned::pinned_width::PinnedWidth;
use crate::pinned::pinning::ProcessPins;
use crate::pinned::surveyed_domain::{PinnedSource, SurveyedDomain};
use crate::pinned::tokens::{TokenAccount, TokenChange, TokenSurvey};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use underpass_os::process_table::ready_threads;
use underpass_os::{Fifo, process_table};

/// So many surveys in a row decide how many processors the threads could use.
const SURVEYS: usize = 3;

/// How often each CPU is in use by pinned domains.
pub(crate) type CpuUses = HashMap<usize, usize>;

/// What the surveyor knows of one domain.
#[derive(Debug)]
pub(crate) struct DomainSurvey {
    pub(crate) domain: Arc<SurveyedDomain>,
    pinning: ProcessPins,
    width: PinnedWidth,
    members: DomainMembers,
    /// Clients of the jobserver, as the last look at open files found them.
    clients: HashSet<u32>,
    tokens: TokenAccount,
    /// What the last survey has found of them.
    seen: TokenSurvey,
    /// How many threads were ready in the last surveys.
    ready: [u32; SURVEYS],
    surveys: usize,
    /// Nothing was ever decided for it: its processes are as they were.
    is_new: bool,
}

impl DomainSurvey {
    pub(crate) fn new(domain: Arc<SurveyedDomain>) -> Self {
        let pinning = match &domain.source {
            PinnedSource::Below(root) => ProcessPins::new(*root, false),
            PinnedSource::Clients(_) => ProcessPins::new(std::process::id(), true),
        };
        Self {
            domain,
            pinning,
            width: PinnedWidth::default(),
            members: DomainMembers::default(),
            clients: HashSet::new(),
            tokens: TokenAccount::default(),
            seen: TokenSurvey::default(),
            ready: [0; SURVEYS],
            surveys: 0,
            is_new: true,
        }
    }

    /// The process that stands for this domain, if there is one.
    pub(crate) fn root(&self) -> Option<u32> {
        match self.domain.source {
            PinnedSource::Below(root) => Some(root),
            PinnedSource::Clients(_) => None,
        }
    }

    /// Counts the CPUs that it is pinned to.
    pub(crate) fn add_uses(&self, uses: &mut CpuUses) {
        self.pinning.cpus().iter().for_each(|&cpu| *uses.entry(cpu).or_default() += 1);
    }

    /// Pins as the main thread has decided.
    pub(crate) fn carry_out(&mut self, others: &CpuUses, now: u64) {
        let to = match self.width.follow(self.domain.target.get(), now) {
            Some(to) => to,
            None if self.is_new => 0,
            None => return,
        };
        self.is_new = false;
        let uses = |cpu| others.get(&cpu).copied().unwrap_or(0);
        let cpus = choose(self.pinning.base(), self.pinning.cpus(), to, uses);
        self.pinning.set(cpus, to == 0);
        let known: Vec<u32> = self.members.pids().collect();
        known.into_iter().for_each(|pid| self.pinning.pin(pid));
        self.change_tokens(now);
    }

    /// Looks which processes have the pipe open. Only a process that opens it makes that change.
    pub(crate) fn find_clients(&mut self, tree: &ProcessTree) {
        let PinnedSource::Clients(fifo) = &self.domain.source else { return };
        let own = std::process::id();
        let holds = |pid: &u32| *pid != own && fifo.is_held_by(*pid);
        self.clients = tree.pids().filter(holds).collect();
        self.tokens.notice();
    }

    /// Finds the processes, counts, and pins those that have come. `walls` are the processes of
    /// other domains. Returns whether what it wants has changed.
    pub(crate) fn survey(&mut self, tree: &ProcessTree, walls: &HashSet<u32>, now: u64) -> bool {
        match self.domain.source {
            PinnedSource::Below(root) => {
                let mut walls = walls.clone();
                walls.remove(&root);
                self.leave(&walls);
                self.members.find(tree, &HashSet::from([root]), false, &walls);
            }
            PinnedSource::Clients(_) => {
                self.clients.retain(|&pid| tree.find(pid).is_some());
                self.leave(walls);
                self.members.find(tree, &self.clients, true, walls);
            }
        }
        let known: Vec<u32> = self.members.pids().collect();
        known.iter().for_each(|&pid| self.pinning.pin(pid));
        let entries = || known.iter().filter_map(|&pid| tree.find(pid));
        let threads = entries().map(|entry| entry.threads).fold(0, u32::saturating_add);
        self.pinning.forget_ended(threads as usize);
        self.ready[self.surveys % SURVEYS] = entries().map(ready_threads).sum();
        self.surveys += 1;
        let most = self.pinning.base().len() as u32;
        let ready = self.ready.iter().copied().max().unwrap_or(0);
        let demand = ready.max(self.settle_tokens(tree, threads, now));
        let counters = &*self.domain;
        counters.ready.store(self.ready[(self.surveys - 1) % SURVEYS], Ordering::Relaxed);
        counters.processes.store(known.len() as u32, Ordering::Relaxed);
        counters.demand.swap(demand.min(most), Ordering::Relaxed) != demand.min(most)
    }

    /// Processes that are in another domain by now are left as they were at the beginning.
    fn leave(&mut self, walls: &HashSet<u32>) {
        let left: Vec<u32> = walls.iter().copied().filter(|&pid| self.members.contains(pid)).collect();
        left.into_iter().for_each(|pid| self.pinning.leave(pid));
    }

    /// Returns how many jobs the clients of the jobserver could run.
    fn settle_tokens(&mut self, tree: &ProcessTree, threads: u32, now: u64) -> u32 {
        let PinnedSource::Clients(fifo) = &self.domain.source else { return 0 };
        let roots = tree.topmost(&self.clients) as u32;
        let (threads, inside) = (threads.saturating_sub(roots), fifo.len() as u32);
        self.seen = TokenSurvey { roots, threads, inside, ..self.seen };
        self.change_tokens(now);
        self.tokens.jobs(&self.seen, now)
    }

    /// The tokens in circulation follow the pins.
    fn change_tokens(&mut self, now: u64) {
        let PinnedSource::Clients(fifo) = &self.domain.source else { return };
        self.seen = TokenSurvey { processors: self.width.get(), inside: fifo.len() as u32, ..self.seen };
        change(fifo, &mut self.tokens, &self.seen, now);
        self.seen.inside = fifo.len() as u32;
        self.domain.issued.store(self.tokens.issued, Ordering::Relaxed);
        self.domain.out.store(self.tokens.out(self.seen.inside), Ordering::Relaxed);
    }

    /// Its processes.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.members.pids()
    }

    /// Whether any of its threads could run.
    pub(crate) fn is_busy(&self) -> bool {
        self.ready.iter().any(|&ready| ready > 0)
    }

    /// Whether there is nothing to survey until a process opens the pipe, but for what is due.
    pub(crate) fn is_quiet(&self) -> bool {
        self.root().is_none() && self.members.len() == 0 && self.tokens.issued == 0
    }

    /// When the pins are due to be changed.
    pub(crate) fn pins_due(&self) -> Option<u64> {
        self.width.due()
    }

    /// When to look again in any case.
    pub(crate) fn due(&self) -> Option<u64> {
        self.tokens.due()
    }

    /// Gives the processes everything back.
    pub(crate) fn release(&mut self) {
        let living: Vec<u32> = self.members.living().collect();
        // Those that have begun since the last survey are below them, or below the root.
        let tree = ProcessTree::new(process_table::read().unwrap_or_default());
        let roots: HashSet<u32> = living.into_iter().chain(self.root()).collect();
        let walls = HashSet::from([std::process::id()]);
        self.members.find(&tree, &roots, false, &walls);
        self.pinning.release(self.members.pids());
    }
}

/// Does what the account says, and tells it what was done.
fn change(fifo: &Fifo, tokens: &mut TokenAccount, seen: &TokenSurvey, now: u64) {
    match tokens.settle(seen, now) {
        TokenChange::Keep => {}
        TokenChange::Put(more) => {
            // A pipe that is full has 4,096 tokens at least.
            let put = fifo.put(more as usize) as u32;
            tokens.taken(more - put);
        }
        TokenChange::Take(most) => {
            let taken = fifo.take(most as usize) as u32;
            tokens.taken(taken);
        }
    }
}

/// Gives all processes below this one their CPUs and their niceness back, those of this one: the
/// server that has pinned them was killed.
pub(crate) fn unpin_below(runner: u32) {
    let mut pinning = ProcessPins::new(runner, true);
    let mut members = DomainMembers::default();
    let tree = ProcessTree::new(process_table::read().unwrap_or_default());
    members.find(&tree, &HashSet::from([runner]), false, &HashSet::new());
    pinning.release(members.pids());
}
