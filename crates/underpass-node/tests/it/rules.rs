//! The rules of the policy, one by one.

use underpass_node::{Decision, Disobedience, DomainId, NodePolicy, Obedience, ProcessorTime, Rules, Terms};

const MS: u64 = 1_000_000;

/// A policy, and the time.
struct Node {
    policy: NodePolicy,
    now: u64,
    /// What was decided and is not done yet.
    out: Vec<Decision>,
}

impl Node {
    fn new(processors: u32) -> Self {
        Self { policy: NodePolicy::new(processors, Rules::default()), now: 0, out: Vec::new() }
    }

    fn add(&mut self, terms: Terms) -> DomainId {
        self.policy.register(terms, self.now, &mut self.out)
    }

    /// A domain with so many threads that compute.
    fn busy(&mut self, terms: Terms, threads: u32) -> DomainId {
        let domain = self.add(terms);
        self.wants(domain, threads);
        domain
    }

    fn wants(&mut self, domain: DomainId, ready: u32) {
        self.policy.report(domain, ready, u64::MAX, self.now, &mut self.out);
    }

    fn running(&self, domain: DomainId) -> u32 {
        self.policy.counts(domain).unwrap().running
    }

    /// Everything decided since the last time.
    fn decided(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.out)
    }

    /// Victims give way, except for `stubborn`. Returns everything decided.
    fn obey(&mut self, stubborn: Option<DomainId>) -> Vec<Decision> {
        let mut all = self.decided();
        let mut at = 0;
        while let Some(&decision) = all.get(at) {
            at += 1;
            if let Decision::Ask { victim, .. } = decision
                && Some(victim) != stubborn
            {
                self.policy.gave_way(victim, self.now, &mut self.out);
                all.append(&mut self.out);
            }
        }
        all
    }

    /// So many milliseconds pass. Returns everything decided.
    fn pass(&mut self, ms: u64, stubborn: Option<DomainId>) -> Vec<Decision> {
        let mut all = Vec::new();
        for _ in 0..ms {
            self.now += MS;
            self.policy.look(self.now, &mut self.out);
            all.extend(self.obey(stubborn));
        }
        all
    }

    /// The kernel's account of a domain.
    fn account(&mut self, domain: DomainId, ran: u64, waited: u64) {
        let time = ProcessorTime { ran: ran * MS, waited: waited * MS };
        self.policy.account(domain, time, self.now, &mut self.out);
    }

    /// For so many milliseconds, the processor time that a domain holds.
    fn held(&mut self, ms: u64, domain: DomainId, stubborn: Option<DomainId>) -> u64 {
        (0..ms).map(|_| (self.pass(1, stubborn), u64::from(self.running(domain))).1).sum()
    }
}

#[test]
fn a_free_processor_goes_to_whoever_wants_it() {
    let mut node = Node::new(4);
    let domain = node.busy(Terms { maximum: 3, ..Terms::default() }, 9);
    assert_eq!(node.decided(), [Decision::Grant { to: domain }; 3]);
    assert_eq!((node.running(domain), node.policy.free()), (3, 1));
    assert!(!node.policy.is_wanted());
}

#[test]
fn a_domain_that_runs_wants_more_only_after_its_threads_have_waited() {
    let mut node = Node::new(4);
    let domain = node.busy(Terms::default(), 1);
    node.policy.report(domain, 2, 0, node.now, &mut node.out);
    assert_eq!(node.running(domain), 1);
    node.policy.report(domain, 2, Rules::default().patience, node.now, &mut node.out);
    assert_eq!(node.running(domain), 3);
}

#[test]
fn processors_are_shared_at_once_when_a_domain_comes_that_has_slept() {
    let mut node = Node::new(64);
    let first = node.busy(Terms::default(), 64);
    let second = node.add(Terms::default());
    // While nobody competes the first one's use costs it nothing.
    node.wants(first, 64);
    node.pass(1000, None);
    assert_eq!(node.running(first), 64);
    node.wants(second, 64);
    node.pass(25, None);
    let (first, second) = (node.running(first), node.running(second));
    assert!(first.abs_diff(second) <= 4, "{first} and {second}");
}

#[test]
fn a_domain_that_wants_little_preempts_at_once() {
    let mut node = Node::new(1);
    let busy = [node.busy(Terms::default(), 1), node.busy(Terms::default(), 1)];
    let interactive = node.add(Terms::default());
    node.pass(1000, None);
    for _ in 0..50 {
        node.decided();
        node.wants(interactive, 1);
        node.policy.look(node.now, &mut node.out);
        node.obey(None);
        assert_eq!(node.running(interactive), 1, "it does not wait for the end of a slice");
        node.pass(1, None);
        node.policy.release(interactive, node.now, &mut node.out);
        node.pass(40, None);
    }
    assert_eq!(busy.map(|domain| node.running(domain)).iter().sum::<u32>(), 1);
}

#[test]
fn a_minimum_is_given_at_once_and_one_processor_stays_for_all() {
    let mut node = Node::new(4);
    let busy = node.busy(Terms { weight: 1000, ..Terms::default() }, 4);
    let sure = node.add(Terms { minimum: 2, ..Terms::default() });
    let late = node.add(Terms { minimum: 2, ..Terms::default() });
    let minimums = [sure, late].map(|domain| node.policy.counts(domain).unwrap().minimum);
    assert_eq!(minimums, [2, 1]);
    for domain in [sure, late] {
        node.wants(domain, 4);
    }
    node.policy.look(node.now, &mut node.out);
    node.obey(None);
    assert_eq!((node.running(sure), node.running(late), node.running(busy)), (2, 1, 1));
    for _ in 0..500 {
        node.pass(1, None);
        assert!(node.running(sure) >= 2 && node.running(late) >= 1, "nobody takes a minimum away");
    }
    node.policy.unregister(sure, node.now, &mut node.out);
    assert_eq!(node.policy.counts(late).unwrap().minimum, 2);
}

#[test]
fn the_borrower_is_asked_first_when_the_lender_goes_on() {
    let mut node = Node::new(2);
    let (lender, other) = (node.busy(Terms::default(), 1), node.busy(Terms::default(), 1));
    let borrower = node.busy(Terms::default(), 1);
    node.decided();
    node.policy.lend(lender, node.now, &mut node.out);
    assert_eq!(node.decided(), [Decision::Lend { from: lender, to: borrower }]);
    let (of_lender, of_borrower) =
        (node.policy.counts(lender).unwrap(), node.policy.counts(borrower).unwrap());
    assert_eq!((of_lender.running, of_lender.lent, of_lender.demand), (0, 1, 0));
    assert_eq!((of_borrower.running, of_borrower.temporary), (1, 1));

    node.policy.recall(lender, node.now, &mut node.out);
    assert_eq!(node.decided(), [Decision::Ask { victim: borrower, to: Some(lender) }]);
    node.policy.gave_way(borrower, node.now, &mut node.out);
    assert_eq!(node.decided(), [Decision::Grant { to: lender }]);
    assert_eq!((node.running(lender), node.running(other), node.running(borrower)), (1, 1, 0));
    assert_eq!(node.policy.counts(lender).unwrap().lent, 0);
}

#[test]
fn an_idle_borrower_gives_back_to_a_lender_that_wants_and_else_to_all() {
    for wants in [true, false] {
        let mut node = Node::new(1);
        let lender = node.busy(Terms::default(), 1);
        let borrower = node.busy(Terms::default(), 1);
        node.policy.lend(lender, node.now, &mut node.out);
        if wants {
            node.wants(lender, 1);
        }
        node.policy.release(borrower, node.now, &mut node.out);
        assert_eq!((node.running(lender), node.policy.free()), if wants { (1, 0) } else { (0, 1) });
        assert_eq!(node.policy.counts(lender).unwrap().lent, 0);
    }
}

#[test]
fn a_call_gives_its_processor_to_a_domain_that_has_none() {
    let mut node = Node::new(1);
    let (caller, callee) = (node.busy(Terms::default(), 1), node.add(Terms::default()));
    node.policy.donate(caller, callee, node.now, &mut node.out);
    assert_eq!((node.running(caller), node.running(callee)), (0, 1));
    node.policy.recall(caller, node.now, &mut node.out);
    node.policy.release(callee, node.now, &mut node.out);
    assert_eq!((node.running(caller), node.running(callee)), (1, 0));
    // A borrowed processor is not lent once more.
    node.policy.donate(caller, callee, node.now, &mut node.out);
    node.policy.donate(callee, caller, node.now, &mut node.out);
    assert_eq!((node.running(caller), node.running(callee)), (0, 1));
}

#[test]
fn loans_end_with_either_domain() {
    for lender_dies in [true, false] {
        let mut node = Node::new(1);
        let lender = node.busy(Terms::default(), 1);
        let borrower = node.busy(Terms::default(), 1);
        node.policy.lend(lender, node.now, &mut node.out);
        let (dead, left) = if lender_dies { (lender, borrower) } else { (borrower, lender) };
        node.policy.unregister(dead, node.now, &mut node.out);
        let counts = node.policy.counts(left).unwrap();
        assert_eq!((counts.temporary, counts.lent), (0, 0));
        assert_eq!(counts.running + node.policy.free(), 1);
        assert_eq!(node.policy.counts(dead), None);
    }
}

#[test]
fn a_victim_that_dies_makes_room_at_once() {
    let mut node = Node::new(1);
    let victim = node.busy(Terms::default(), 1);
    let other = node.busy(Terms::default(), 1);
    node.decided();
    while node.decided().is_empty() {
        node.now += MS;
        node.policy.look(node.now, &mut node.out);
    }
    assert_eq!(node.policy.counts(victim).unwrap().asked, 1);
    node.policy.unregister(victim, node.now, &mut node.out);
    assert_eq!(node.running(other), 1);
    // Its name is of no use any more, though its place is taken again.
    let next = node.add(Terms::default());
    assert_eq!(next.index(), victim.index());
    node.policy.gave_way(victim, node.now, &mut node.out);
    node.policy.release(victim, node.now, &mut node.out);
    node.wants(victim, 9);
    assert_eq!((node.running(other), node.running(next)), (1, 0));
}

#[test]
fn a_processor_that_becomes_free_goes_to_whoever_waits_for_a_victim() {
    let mut node = Node::new(2);
    let (stubborn, idle) = (node.busy(Terms::default(), 1), node.busy(Terms::default(), 1));
    let waiter = node.busy(Terms::default(), 1);
    while !node.decided().iter().any(|each| matches!(each, Decision::Ask { .. })) {
        node.now += MS;
        node.policy.look(node.now, &mut node.out);
    }
    let victims = [stubborn, idle].map(|domain| node.policy.counts(domain).unwrap().asked);
    let other = if victims == [1, 0] { idle } else { stubborn };
    node.policy.release(other, node.now, &mut node.out);
    assert_eq!(node.running(waiter), 1, "it need not wait any more");
}

#[test]
fn a_victim_that_keeps_its_processor_gets_the_least_and_something() {
    let mut node = Node::new(1);
    let stubborn = node.busy(Terms::default(), 1);
    let honest = node.busy(Terms::default(), 1);
    let mut decided = node.pass(200, Some(stubborn));
    let seized = decided.iter().filter(|each| matches!(each, Decision::Seize { .. })).count();
    assert!(seized >= 3);
    node.account(stubborn, 100, 90);
    decided.extend(node.decided());
    let demoted = Decision::Demote { domain: stubborn, because: Disobedience::KeptAProcessor };
    assert_eq!(decided.iter().filter(|&&each| each == demoted).count(), 1, "it is told once");
    assert_eq!(node.policy.counts(stubborn).unwrap().obedience, Obedience::GetsLeast);
    let held = node.held(20_000, stubborn, Some(stubborn));
    assert!(held > 0 && held < 1000, "{held} of 20,000 ms");
    assert_eq!(node.policy.counts(honest).unwrap().obedience, Obedience::Obeys);
}

#[test]
fn a_victim_that_the_kernel_keeps_waiting_is_not_blamed() {
    let mut node = Node::new(1);
    let victim = node.busy(Terms::default(), 1);
    node.busy(Terms::default(), 1);
    for _ in 0..10 {
        let decided = node.pass(100, Some(victim));
        assert!(decided.iter().any(|each| matches!(each, Decision::Seize { .. })), "its processor is taken");
        node.account(victim, 20, 70);
        assert_eq!(node.policy.counts(victim).unwrap().obedience, Obedience::Obeys);
    }
}

#[test]
fn a_domain_that_obeys_again_has_its_weight_again() {
    let mut node = Node::new(1);
    let domain = node.busy(Terms::default(), 1);
    node.busy(Terms::default(), 1);
    node.pass(200, Some(domain));
    node.account(domain, 100, 0);
    assert_eq!(node.policy.counts(domain).unwrap().obedience, Obedience::GetsLeast);
    let mut restored = false;
    for _ in 0..100 {
        let ran = node.held(100, domain, None);
        node.account(domain, ran, 0);
        restored |= node.obey(None).contains(&Decision::Restore { domain });
    }
    assert!(restored);
    let held = node.held(2000, domain, None);
    assert!(held.abs_diff(1000) < 50, "{held} of 2,000 ms");
}

#[test]
fn the_kernels_accounts_show_who_lies() {
    let run = |ran: u64, waited: u64| {
        let mut node = Node::new(2);
        let liar = node.busy(Terms::default(), 2);
        node.busy(Terms::default(), 2);
        let mut decided = Vec::new();
        for _ in 0..5 {
            decided.extend(node.pass(100, None));
            node.account(liar, ran, waited);
            decided.extend(node.obey(None));
        }
        decided.into_iter().find_map(|each| match each {
            Decision::Demote { domain, because } if domain == liar => Some(because),
            _ => None,
        })
    };
    assert_eq!(run(100, 0), None);
    assert_eq!(run(10, 85), None, "the kernel ran other programs");
    assert_eq!(run(200, 0), Some(Disobedience::RanInExcess));
    assert_eq!(run(0, 0), Some(Disobedience::ClaimedWithoutUse));
}

#[test]
fn a_domain_gains_nothing_by_leaving_and_coming_again() {
    let mut node = Node::new(1);
    let steady = node.busy(Terms::default(), 1);
    let mut held = 0;
    for _ in 0..400 {
        let restless = node.busy(Terms::default(), 1);
        held += node.held(25, restless, None);
        node.policy.unregister(restless, node.now, &mut node.out);
        node.obey(None);
    }
    assert!(held <= 5200, "{held} of 10,000 ms");
    assert_eq!(node.running(steady), 1);
}

#[test]
fn processors_that_are_taken_from_the_machine_are_taken_from_domains() {
    let mut node = Node::new(8);
    let domain = node.busy(Terms::default(), 8);
    node.policy.set_processors(3, node.now, &mut node.out);
    assert_eq!(node.policy.surplus(), 5);
    node.obey(None);
    assert_eq!((node.running(domain), node.policy.surplus(), node.policy.free()), (3, 0, 0));
    node.policy.set_processors(5, node.now, &mut node.out);
    node.wants(domain, 8);
    assert_eq!(node.running(domain), 5);
}

#[test]
fn a_heavy_domain_loses_nothing_while_many_light_ones_have_their_turns() {
    let mut node = Node::new(1);
    let heavy = node.busy(Terms { weight: 40, ..Terms::default() }, 1);
    for _ in 0..40 {
        node.busy(Terms::default(), 1);
    }
    let held = node.held(20_000, heavy, None);
    assert!(held.abs_diff(10_000) < 500, "{held} of 20,000 ms");
}

#[test]
fn domains_that_come_and_leave_do_not_distort_the_shares_of_others() {
    let mut node = Node::new(1);
    let heavy = node.busy(Terms { weight: 4, ..Terms::default() }, 1);
    let light = node.busy(Terms::default(), 1);
    let mut held = [0, 0];
    for _ in 0..20_000 {
        let passing = [(); 20].map(|()| node.busy(Terms::default(), 1));
        node.pass(1, None);
        for (held, domain) in held.iter_mut().zip([heavy, light]) {
            *held += u64::from(node.running(domain));
        }
        for domain in passing {
            node.policy.unregister(domain, node.now, &mut node.out);
        }
        node.obey(None);
    }
    let [heavy, light] = held;
    assert!(heavy.abs_diff(4 * light) < 500, "{heavy} and {light} ms");
}

#[test]
fn a_processor_that_a_domain_gave_another_by_itself_is_that_ones() {
    let mut node = Node::new(2);
    let (giver, taker) = (node.busy(Terms::default(), 2), node.add(Terms::default()));
    node.decided();
    node.policy.observe(&[(giver, 1), (taker, 1)], node.now, &mut node.out);
    assert_eq!((node.running(giver), node.running(taker), node.policy.free()), (1, 1, 0));
    assert_eq!(node.decided(), [], "nobody is to do anything");
    // What nobody has instead is free.
    node.policy.observe(&[(giver, 0)], node.now, &mut node.out);
    assert_eq!(node.policy.free() + node.running(giver) + node.running(taker), 2);
}

#[test]
fn a_processor_that_was_given_back_does_not_come_again() {
    let mut node = Node::new(1);
    let giver = node.busy(Terms::default(), 1);
    node.decided();
    // It has said nothing since of what it wants.
    node.policy.observe(&[(giver, 0)], node.now, &mut node.out);
    assert_eq!((node.running(giver), node.policy.free(), node.decided()), (0, 1, vec![]));
}

/// A victim that runs on both processors, and a domain for which it was asked for one.
fn victim_and_other(node: &mut Node) -> (DomainId, DomainId) {
    let victim = node.busy(Terms::default(), 2);
    let other = node.add(Terms::default());
    node.decided();
    // The slice of the victim ends, and the other has nothing yet.
    node.pass(100, None);
    node.policy.report(other, 1, 0, node.now, &mut node.out);
    node.policy.look(node.now, &mut node.out);
    assert_eq!(node.decided(), [Decision::Ask { victim, to: Some(other) }]);
    assert_eq!(node.policy.counts(victim).unwrap().asked, 1);
    (victim, other)
}

#[test]
fn a_victim_that_gives_the_other_domain_its_processor_has_answered() {
    for is_given_back in [false, true] {
        let mut node = Node::new(2);
        let (victim, other) = victim_and_other(&mut node);
        assert!(node.policy.is_asked_for(victim, other));
        node.policy.answered(victim, other, node.now);
        assert!(!node.policy.is_asked_for(victim, other));
        // The other domain may have given it back by the next look.
        let holds = if is_given_back { [(victim, 2), (other, 0)] } else { [(victim, 1), (other, 1)] };
        node.policy.observe(&holds, node.now, &mut node.out);
        node.policy.report(other, 0, 0, node.now, &mut node.out);
        let counts = node.policy.counts(victim).unwrap();
        assert_eq!((counts.running, counts.asked, node.running(other)), (holds[0].1, 0, holds[1].1));
        // Nobody is blamed for it, and nothing is seized.
        assert!(!node.pass(100, None).iter().any(|decision| matches!(decision, Decision::Seize { .. })));
        // It answers once.
        node.policy.answered(victim, other, node.now);
        assert_eq!(node.policy.free() + node.running(victim) + node.running(other), 2);
    }
}

#[test]
fn a_domain_with_more_than_there_is_is_asked_for_it() {
    let mut node = Node::new(1);
    let (one, other) = (node.busy(Terms::default(), 1), node.add(Terms::default()));
    node.decided();
    node.policy.observe(&[(other, 1)], node.now, &mut node.out);
    assert_eq!(node.policy.surplus(), 1);
    assert_eq!(node.decided(), [Decision::Ask { victim: other, to: None }]);
    node.policy.observe(&[(other, 0)], node.now, &mut node.out);
    assert_eq!((node.policy.surplus(), node.running(one), node.running(other)), (0, 1, 0));
}

#[test]
fn whatever_domains_move_by_themselves_all_processors_are_counted() {
    let mut node = Node::new(3);
    let domains = [(); 4].map(|()| node.busy(Terms::default(), 3));
    let mut seed = 1_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    for _ in 0..20_000 {
        node.now += random(3 * MS);
        let domain = domains[random(4) as usize];
        match random(4) {
            0 => node.policy.look(node.now, &mut node.out),
            1 => node.wants(domain, random(4) as u32),
            2 => node.policy.gave_way(domain, node.now, &mut node.out),
            _ => {
                let holds = domains.map(|domain| (domain, random(4) as u32));
                node.policy.observe(&holds, node.now, &mut node.out);
            }
        }
        let running: u32 = domains.iter().map(|&domain| node.running(domain)).sum();
        assert_eq!(node.policy.free() + running, node.policy.processors() + node.policy.surplus());
        for domain in domains {
            let counts = node.policy.counts(domain).unwrap();
            assert!(counts.asked <= counts.running);
        }
        node.decided();
    }
}
