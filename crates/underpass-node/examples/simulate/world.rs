//! A simulated machine: domains that do what their behaviour says, under the policy that ships.

use crate::behaviour::{Behaviour, Phase};
use crate::random::Random;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use underpass_node::{Decision, DomainCounts, DomainId, NodePolicy, ProcessorTime, Rules, Terms};

/// One domain of the world.
#[derive(Debug)]
pub struct Simulated {
    pub id: DomainId,
    pub behaviour: Behaviour,
    pub terms: Terms,
    phase: Phase,
    /// The processor time that it has had.
    pub served: u64,
    accounted: u64,
    ran_in_excess: u64,
    /// Processors that were seized and on which it goes on running.
    kept: u32,
    without_since: Option<u64>,
    /// For how long it could be made to wait, at the most, since it began to wait.
    bound: u64,
    /// The longest time that it wanted a processor and had none.
    pub longest_wait: u64,
    /// How long it had something to do and no processor, each time that it had something to do.
    pub waits: Vec<u64>,
}

/// What was seen of a world.
#[derive(Debug, Default)]
pub struct Seen {
    pub decisions: u64,
    pub preemptions: u64,
    pub demotions: Vec<DomainId>,
    pub samples: u64,
    /// Samples in which more activations ran than there were processors.
    pub excess_samples: u64,
    pub looks: u64,
    pub look_time: Duration,
    pub longest_look: Duration,
    pub events: u64,
    pub event_time: Duration,
    /// Waits that were longer than the policy says that they can be: domain, wait, bound.
    pub too_long: Vec<(DomainId, u64, u64)>,
}

/// A machine and its domains.
#[derive(Debug)]
pub struct World {
    pub policy: NodePolicy,
    pub domains: Vec<Simulated>,
    by_id: BTreeMap<DomainId, usize>,
    pub now: u64,
    tick: u64,
    pub random: Random,
    /// Victims that will give way, and when.
    giving_way: Vec<(u64, DomainId)>,
    pub seen: Seen,
}

/// The kernel's accounts are read so often.
const ACCOUNTS: u64 = 100_000_000;

impl World {
    pub fn new(processors: u32, rules: Rules, tick: u64, seed: u64) -> Self {
        Self {
            policy: NodePolicy::new(processors, rules),
            domains: Vec::new(),
            by_id: BTreeMap::new(),
            now: 0,
            tick,
            random: Random::new(seed),
            giving_way: Vec::new(),
            seen: Seen::default(),
        }
    }

    /// Calls the policy, takes its time, and does what it decides.
    fn event(&mut self, call: impl FnOnce(&mut NodePolicy, u64, &mut Vec<Decision>)) {
        let mut out = Vec::new();
        let began = Instant::now();
        call(&mut self.policy, self.now, &mut out);
        self.seen.event_time += began.elapsed();
        self.seen.events += 1;
        self.carry_out(&out);
    }

    /// Does what the policy decides.
    pub fn carry_out(&mut self, out: &[Decision]) {
        self.seen.decisions += out.len() as u64;
        for &decision in out {
            match decision {
                Decision::Ask { victim, .. } => {
                    self.seen.preemptions += 1;
                    // A safe point comes at once, or up to two ticks later.
                    let at = self.now + self.random.below(3) * self.tick;
                    let keeps = self.by_id.get(&victim).map(|&at| self.domains[at].behaviour);
                    if keeps != Some(Behaviour::Keeps) {
                        self.giving_way.push((at, victim));
                    }
                }
                Decision::Seize { victim } => {
                    if let Some(&at) = self.by_id.get(&victim) {
                        self.domains[at].kept += 1;
                    }
                }
                Decision::Demote { domain, .. } => self.seen.demotions.push(domain),
                Decision::Grant { .. } | Decision::Lend { .. } | Decision::Restore { .. } => {}
            }
        }
    }

    pub fn add(&mut self, behaviour: Behaviour, terms: Terms) -> DomainId {
        let (mut out, now) = (Vec::new(), self.now);
        let id = self.policy.register(terms, now, &mut out);
        self.by_id.insert(id, self.domains.len());
        self.domains.push(Simulated {
            id,
            behaviour,
            terms,
            phase: Phase::Asleep { until: now },
            served: 0,
            accounted: 0,
            ran_in_excess: 0,
            kept: 0,
            without_since: None,
            bound: 0,
            longest_wait: 0,
            waits: Vec::new(),
        });
        self.carry_out(&out);
        id
    }

    /// A domain leaves, or dies.
    pub fn remove(&mut self, at: usize) {
        let gone = self.domains.swap_remove(at);
        self.by_id.remove(&gone.id);
        if let Some(moved) = self.domains.get(at) {
            self.by_id.insert(moved.id, at);
        }
        self.event(|policy, now, out| policy.unregister(gone.id, now, out));
    }

    /// Time passes, up to then.
    pub fn run_until(&mut self, end: u64) {
        while self.now < end {
            self.step();
        }
    }

    /// One tick passes.
    pub fn step(&mut self) {
        self.now += self.tick;
        self.account();
        for at in 0..self.domains.len() {
            let counts = self.policy.counts(self.domains[at].id).expect("it has not left");
            self.run_domain(at, counts);
        }
        let due: Vec<_> = self.giving_way.extract_if(.., |(when, _)| *when <= self.now).collect();
        for (_, victim) in due {
            self.event(|policy, now, out| policy.gave_way(victim, now, out));
        }
        let mut out = Vec::new();
        let began = Instant::now();
        self.policy.look(self.now, &mut out);
        let took = began.elapsed();
        self.seen.looks += 1;
        self.seen.look_time += took;
        self.seen.longest_look = self.seen.longest_look.max(took);
        self.carry_out(&out);
        self.sample();
    }

    /// What the domain did on its processors in the last tick, and what follows.
    fn run_domain(&mut self, at: usize, counts: DomainCounts) {
        let (id, now, tick) = (self.domains[at].id, self.now, self.tick);
        let behaviour = self.domains[at].behaviour;
        if behaviour != Behaviour::Claims {
            self.domains[at].served += tick * u64::from(counts.running.min(counts.demand.max(1)));
        }
        let done = self.domains[at].progress(counts.running, tick, now);
        match (behaviour, done) {
            (Behaviour::Claims, _) => {
                self.event(|policy, now, out| policy.report(id, 1000, u64::MAX, now, out));
            }
            (Behaviour::Exceeds { extra }, _) => {
                self.domains[at].ran_in_excess += u64::from(extra) * tick;
                self.wake(at, 1, counts);
            }
            (Behaviour::Keeps, _) => {
                self.domains[at].ran_in_excess += u64::from(self.domains[at].kept) * tick;
                self.wake(at, 2, counts);
            }
            (Behaviour::Saturated { threads }, _) => self.wake(at, threads, counts),
            (Behaviour::Interactive { think, .. }, Progress::Done) => {
                self.domains[at].phase = Phase::Asleep { until: now + self.random.time(think) };
                self.event(|policy, now, out| policy.release(id, now, out));
            }
            (Behaviour::Blocking { block, .. }, Progress::Done) => {
                self.domains[at].phase = Phase::Asleep { until: now + self.random.time(block) };
                self.event(|policy, now, out| policy.lend(id, now, out));
            }
            (Behaviour::Bursty { idle, .. }, Progress::Done) => {
                self.domains[at].phase = Phase::Asleep { until: now + self.random.time(idle) };
                self.event(|policy, now, out| policy.report(id, 0, 0, now, out));
                for _ in 0..counts.running {
                    self.event(|policy, now, out| policy.release(id, now, out));
                }
            }
            (Behaviour::Interactive { burst, .. }, Progress::Woke) => self.begin(at, burst, 1, counts),
            (Behaviour::Bursty { threads, busy, .. }, Progress::Woke) => {
                self.begin(at, busy, threads, counts)
            }
            (Behaviour::Blocking { compute, .. }, Progress::Woke) => {
                self.domains[at].phase = Phase::Busy { left: self.random.time(compute), waited: 0 };
                self.event(|policy, now, out| policy.recall(id, now, out));
            }
            (_, Progress::Nothing) => {}
        }
        // A sleeping domain that was lent a processor has nothing to run on it.
        let asleep = matches!(self.domains[at].phase, Phase::Asleep { .. }) && done == Progress::Nothing;
        if asleep && behaviour.is_honest() && counts.running > 0 {
            self.event(|policy, now, out| policy.release(id, now, out));
        }
    }

    fn begin(&mut self, at: usize, mean: u64, threads: u32, counts: DomainCounts) {
        self.domains[at].phase = Phase::Busy { left: self.random.time(mean), waited: 0 };
        self.wake(at, threads, counts);
    }

    /// The domain has so many threads.
    fn wake(&mut self, at: usize, threads: u32, counts: DomainCounts) {
        let (id, wanted) = (self.domains[at].id, threads.min(self.domains[at].terms.maximum));
        if matches!(self.domains[at].phase, Phase::Asleep { .. }) {
            self.domains[at].phase = Phase::Busy { left: u64::MAX, waited: 0 };
        }
        if counts.demand != wanted.min(self.policy.processors()) {
            let ready = threads.saturating_sub(counts.running);
            self.event(|policy, now, out| policy.report(id, ready, u64::MAX, now, out));
        }
    }

    fn account(&mut self) {
        if !self.now.is_multiple_of(ACCOUNTS) {
            return;
        }
        for at in 0..self.domains.len() {
            let domain = &mut self.domains[at];
            let ran = domain.served - domain.accounted + std::mem::take(&mut domain.ran_in_excess);
            domain.accounted = domain.served;
            let id = domain.id;
            let time = ProcessorTime { ran, waited: 0 };
            self.event(|policy, now, out| policy.account(id, time, now, out));
        }
    }

    /// Looks at the world from outside.
    fn sample(&mut self) {
        let (mut running, mut temporary, mut lent, mut kept) = (0, 0, 0, 0);
        for domain in &mut self.domains {
            let counts = self.policy.counts(domain.id).expect("it has not left");
            (running, temporary, lent) =
                (running + counts.running, temporary + counts.temporary, lent + counts.lent);
            kept += domain.kept;
            assert!(counts.asked <= counts.running && counts.temporary <= counts.running, "{counts:?}");
            if counts.running > 0 || counts.wanting_for.is_none() && counts.demand == 0 {
                domain.without_since = None;
                domain.bound = 0;
                continue;
            }
            let since = *domain.without_since.get_or_insert(self.now);
            // The policy gives this bound for the time that follows, so the largest holds.
            let bound = self.policy.longest_wait(domain.id, self.tick).expect("it has not left");
            domain.bound = domain.bound.max(bound);
            let wait = self.now - since;
            domain.longest_wait = domain.longest_wait.max(wait);
            if wait > domain.bound {
                self.seen.too_long.push((domain.id, wait, domain.bound));
            }
        }
        let (processors, free) = (self.policy.processors(), self.policy.free());
        assert_eq!(running + free, processors + self.policy.surplus(), "no processor is lost or doubled");
        assert_eq!(temporary, lent, "each temporary processor is lent by a domain");
        self.seen.samples += 1;
        self.seen.excess_samples += u64::from(running + kept > processors + self.policy.surplus());
    }
}

/// What happened to a domain in a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Nothing,
    Woke,
    Done,
}

impl Simulated {
    fn progress(&mut self, running: u32, tick: u64, now: u64) -> Progress {
        match &mut self.phase {
            Phase::Asleep { until } if *until <= now => Progress::Woke,
            Phase::Busy { waited, .. } if running == 0 => {
                *waited += tick;
                Progress::Nothing
            }
            Phase::Busy { left, waited } => {
                *left = left.saturating_sub(tick * u64::from(running));
                if *left > 0 {
                    return Progress::Nothing;
                }
                self.waits.push(*waited);
                Progress::Done
            }
            Phase::Asleep { .. } => Progress::Nothing,
        }
    }
}
