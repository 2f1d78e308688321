//! Random runs of the policy: no processor is lost or doubled, and no domain starves.

use crate::behaviour::Behaviour;
use crate::fair_shares::{Wish, fair_shares};
use crate::random::Random;
use crate::world::{Simulated, World};
use underpass_node::{Rules, Terms};

const MS: u64 = 1_000_000;

fn behaviour(random: &mut Random) -> Behaviour {
    match random.below(10) {
        0..=2 => Behaviour::Saturated { threads: random.between(1, 6) as u32 },
        3 | 4 => Behaviour::Interactive { think: 30 * MS, burst: MS },
        5 | 6 => Behaviour::Blocking { compute: 3 * MS, block: 5 * MS },
        7 => Behaviour::Bursty { threads: random.between(1, 4) as u32, busy: 20 * MS, idle: 40 * MS },
        8 => Behaviour::Keeps,
        _ if random.below(2) == 0 => Behaviour::Claims,
        _ => Behaviour::Exceeds { extra: random.between(1, 3) as u32 },
    }
}

fn terms(random: &mut Random) -> Terms {
    let minimum = if random.below(8) == 0 { random.between(1, 3) as u32 } else { 0 };
    let maximum = if random.below(4) == 0 { random.between(1, 4) as u32 } else { u32::MAX };
    Terms { weight: random.between(1, 20) as u16, minimum, maximum }
}

/// Lets domains come and go, and processors too. `World::step` checks the counts after each tick.
/// `calls` in a thousand ticks have a call between two domains that donates its processor.
fn random_run(seed: u64, calls: u64) -> World {
    let mut random = Random::new(seed);
    let processors = random.between(1, 8) as u32;
    let mut world = World::new(processors, Rules::default(), MS, seed);
    for _ in 0..random.between(1, 20) {
        world.add(behaviour(&mut random), terms(&mut random));
    }
    for _ in 0..2000 {
        world.step();
        match random.below(1000) {
            0..5 => {
                world.add(behaviour(&mut random), terms(&mut random));
            }
            5..10 if world.domains.len() > 1 => {
                world.remove(random.below(world.domains.len() as u64) as usize);
            }
            10 => {
                let (now, mut out) = (world.now, Vec::new());
                world.policy.set_processors(random.between(1, 8) as u32, now, &mut out);
                world.carry_out(&out);
            }
            other if other >= 1000 - calls => {
                let mut any = || world.domains[random.below(world.domains.len() as u64) as usize].id;
                let (from, to, now, mut out) = (any(), any(), world.now, Vec::new());
                world.policy.donate(from, to, now, &mut out);
                world.policy.recall(from, now, &mut out);
                world.carry_out(&out);
            }
            _ => {}
        }
    }
    world
}

#[test]
fn no_domain_waits_for_longer_than_the_bound() {
    for seed in 0..60 {
        let world = random_run(seed, 0);
        assert_eq!(world.seen.too_long, [], "seed {seed}");
    }
}

#[test]
fn no_processor_is_lost_or_doubled_when_calls_donate_theirs() {
    for seed in 0..60 {
        let world = random_run(seed, 200);
        assert!(world.seen.decisions > 0, "seed {seed}");
    }
}

/// As many processors and domains as there may be, with ticks that fit the size. The counts are
/// checked after each tick.
#[test]
fn no_processor_is_lost_or_doubled_on_machines_of_any_size() {
    for (processors, domains, ticks) in [(1, 10, 1000), (16, 100, 500), (256, 2000, 100), (1024, 10_000, 40)]
    {
        let mut random = Random::new(u64::from(processors));
        let mut world = World::new(processors, Rules::default(), 5 * MS, 7);
        for _ in 0..domains {
            world.add(behaviour(&mut random), terms(&mut random));
        }
        for tick in 0..ticks {
            world.step();
            if tick % 10 == 0 {
                // One domain dies, and another one comes.
                world.remove(random.below(world.domains.len() as u64) as usize);
                world.add(behaviour(&mut random), terms(&mut random));
            }
        }
        assert!(world.seen.decisions >= u64::from(processors), "{processors} processors");
        assert_eq!(world.seen.too_long, [], "{processors} processors");
    }
}

/// What domains get that always compute differs from their fair shares by a few slices, however
/// long they run. 10 seeds, or 40 with `$UNDERPASS_TEST_LONG`.
#[test]
fn service_follows_the_fair_shares() {
    let rules = Rules::default();
    let seeds = if std::env::var_os("UNDERPASS_TEST_LONG").is_some() { 40 } else { 10 };
    for seed in 0..seeds {
        let mut random = Random::new(seed);
        let processors = random.between(1, 8) as u32;
        let mut world = World::new(processors, rules, MS, seed);
        for _ in 0..random.between(2, 12) {
            let terms = Terms { weight: random.between(1, 20) as u16, ..Terms::default() };
            world.add(Behaviour::Saturated { threads: random.between(1, 10) as u32 }, terms);
        }
        let wish = |domain: &Simulated| -> Wish {
            let Behaviour::Saturated { threads } = domain.behaviour else { unreachable!() };
            (f64::from(domain.terms.weight), f64::from(threads.min(processors)))
        };
        let shares = fair_shares(&world.domains.iter().map(wish).collect::<Vec<_>>(), processors);
        let end = 20_000 * MS;
        world.run_until(end);
        for (domain, share) in world.domains.iter().zip(shares) {
            let slices = (domain.served as f64 - share * end as f64) / rules.slice as f64;
            assert!(slices.abs() < 4.0, "seed {seed}: {slices} slices from its share of {share}: {domain:?}");
        }
    }
}
