//! Simulates the policy of the activation server: `cargo run --release -p underpass-node --example
//! simulate`. It takes some minutes, and prints the tables of decision 0080.
//!
//! Time passes in ticks. The domains are simulated, and the policy is the one that ships.

mod behaviour;
mod fair_shares;
mod random;
mod rivals;
mod world;

use behaviour::Behaviour;
use fair_shares::{Wish, fair_shares};
use random::Random;
use rivals::Outcome;
use underpass_node::{Rules, Terms};
use world::World;

const MS: u64 = 1_000_000;

fn main() {
    interactive();
    disobedient();
    mixed();
    saturated();
}

/// Domains that always compute, with random weights and numbers of threads.
fn wishes(domains: usize, processors: u32, random: &mut Random) -> Vec<(Terms, u32)> {
    // Where domains are few, each has more threads, so that all processors are wanted.
    let most = (4 * u64::from(processors) / domains as u64).max(4);
    let wish = |_| {
        let weight = random.between(1, 10) as u16;
        (Terms { weight, ..Terms::default() }, random.between(1, most) as u32)
    };
    (0..domains).map(wish).collect()
}

/// The largest error of a domain in slices, and the part of all time that went to the wrong one.
fn errors(served: &[f64], shares: &[f64], processors: u32, slices: u64) -> (f64, f64) {
    let errors = served.iter().zip(shares).map(|(served, share)| (served - share * slices as f64).abs());
    let largest = errors.clone().fold(0.0, f64::max);
    (largest, errors.sum::<f64>() / 2.0 / (f64::from(processors) * slices as f64))
}

fn show(policy: &str, size: (u32, usize), outcome: &Outcome, shares: &[f64], slices: u64) {
    let (largest, wrong) = errors(&outcome.served, shares, size.0, slices);
    let wait = outcome.longest_wait;
    println!("| {} | {} | {policy} | {largest:.1} | {:.2} % | {wait} |", size.0, size.1, wrong * 100.0);
}

fn saturated() {
    println!("Domains that always compute, with weights of 1 to 10. Errors and waits are in slices.\n");
    println!("| processors | domains | policy | largest error | time at the wrong domain | longest wait |");
    println!("|---|---|---|---|---|---|");
    for (processors, domains, seconds) in [
        (1, 4, 60),
        (2, 5, 60),
        (16, 40, 60),
        (64, 1000, 30),
        (1024, 2000, 10),
        (1024, 10_000, 10),
        (1, 10_000, 300),
    ] {
        let all = wishes(domains, processors, &mut Random::new(7));
        let demand = |threads: u32| f64::from(threads.min(processors));
        let wishes: Vec<Wish> =
            all.iter().map(|(terms, threads)| (f64::from(terms.weight), demand(*threads))).collect();
        let shares = fair_shares(&wishes, processors);
        let size = (processors, domains);
        for slice in [3 * MS, 10 * MS] {
            if slice < 5 * MS && domains == 10_000 {
                continue;
            }
            let rules = Rules { slice, credit: 2 * slice, debt: 4 * slice, ..Rules::default() };
            let slices = seconds * 1000 * MS / slice;
            // A round of so many domains takes long.
            let tick = if domains < 10_000 { MS } else { 5 * MS };
            let mut world = World::new(processors, rules, tick, 1);
            for &(terms, threads) in &all {
                world.add(Behaviour::Saturated { threads }, terms);
            }
            world.run_until(seconds * 1000 * MS);
            let of_slice = |time: u64| time as f64 / slice as f64;
            let outcome = Outcome {
                served: world.domains.iter().map(|domain| of_slice(domain.served)).collect(),
                longest_wait: world.domains.iter().map(|domain| domain.longest_wait).max().unwrap() / slice,
            };
            show(&format!("virtual time, {} ms", slice / MS), size, &outcome, &shares, slices);
            if slice == 10 * MS {
                show("partition", size, &rivals::partition(&wishes, processors, slices), &shares, slices);
                let outcome = rivals::lottery(&wishes, processors, slices, &mut Random::new(9));
                show("lottery", size, &outcome, &shares, slices);
            }
        }
    }
}

fn any_honest(random: &mut Random) -> Behaviour {
    match random.below(4) {
        0 => Behaviour::Saturated { threads: random.between(1, 4) as u32 },
        1 => Behaviour::Interactive { think: 50 * MS, burst: 2 * MS },
        2 => Behaviour::Blocking { compute: 5 * MS, block: 10 * MS },
        _ => Behaviour::Bursty { threads: random.between(1, 4) as u32, busy: 20 * MS, idle: 60 * MS },
    }
}

fn mixed() {
    println!("\nDomains of all kinds. Waits and bounds are in ms, costs in µs.\n");
    println!(
        "| processors | domains | decisions/s | preemptions/s | cost of an event | of a look | longest look \
         | longest wait | its bound | samples in excess |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for (processors, domains, seconds) in
        [(1, 10, 60), (2, 10, 60), (16, 100, 30), (64, 1000, 10), (256, 10_000, 5), (1024, 10_000, 5)]
    {
        let mut random = Random::new(3);
        let mut world = World::new(processors, Rules::default(), MS, 5);
        for _ in 0..domains {
            let weight = random.between(1, 10) as u16;
            world.add(any_honest(&mut random), Terms { weight, ..Terms::default() });
        }
        // Ten times a second a domain dies and another one comes.
        for tenth in 1..=seconds * 10 {
            world.run_until(tenth * 100 * MS);
            world.remove(random.below(domains as u64) as usize);
            world.add(any_honest(&mut random), Terms::default());
        }
        let longest = world.domains.iter().max_by_key(|domain| domain.longest_wait).unwrap();
        let bound = world.policy.longest_wait(longest.id, MS).unwrap();
        let seen = &world.seen;
        let micros = |time: std::time::Duration, count: u64| time.as_nanos() as f64 / 1000.0 / count as f64;
        println!(
            "| {processors} | {domains} | {} | {} | {:.2} | {:.1} | {:.0} | {} | {} | {} of {} |",
            seen.decisions / seconds,
            seen.preemptions / seconds,
            micros(seen.event_time, seen.events),
            micros(seen.look_time, seen.looks),
            micros(seen.longest_look, 1),
            longest.longest_wait / MS,
            bound / MS,
            seen.excess_samples,
            seen.samples
        );
        assert!(seen.too_long.is_empty(), "{:?}", seen.too_long);
    }
}

fn interactive() {
    println!("\nThree domains that always compute on two processors, beside an interactive one that");
    println!("computes 1 ms and sleeps 50 ms. Ticks of 0.1 ms. Delays are in ms.\n");
    println!("| credit | slice | median delay | 99th percentile | longest |");
    println!("|---|---|---|---|---|");
    for (credit, slice) in [(0, 10), (20, 10), (0, 3), (6, 3)] {
        let rules =
            Rules { slice: slice * MS, credit: credit * MS, debt: 4 * slice * MS, ..Rules::default() };
        let mut world = World::new(2, rules, MS / 10, 11);
        for _ in 0..3 {
            world.add(Behaviour::Saturated { threads: 2 }, Terms::default());
        }
        world.add(Behaviour::Interactive { think: 50 * MS, burst: MS }, Terms::default());
        world.run_until(120_000 * MS);
        let delays = &mut world.domains[3].waits;
        delays.sort_unstable();
        let at = |part: f64| delays[((delays.len() - 1) as f64 * part) as usize] as f64 / MS as f64;
        println!("| {credit} ms | {slice} ms | {:.1} | {:.1} | {:.1} |", at(0.5), at(0.99), at(1.0));
    }
}

fn disobedient() {
    println!("\nTwo honest domains that always compute and one that lies, on two processors, 60 s.\n");
    println!("| the third domain | its processors | told of | each honest domain |");
    println!("|---|---|---|---|");
    for behaviour in [
        Behaviour::Saturated { threads: 2 },
        Behaviour::Claims,
        Behaviour::Keeps,
        Behaviour::Exceeds { extra: 2 },
    ] {
        let mut world = World::new(2, Rules::default(), MS, 13);
        for _ in 0..2 {
            world.add(Behaviour::Saturated { threads: 2 }, Terms::default());
        }
        let third = world.add(behaviour, Terms::default());
        let (mut held, ticks) = (0, 60_000);
        for _ in 0..ticks {
            world.step();
            held += world.policy.counts(third).unwrap().running;
        }
        let honest = world.domains[0].served as f64 / f64::from(ticks) / MS as f64;
        let told = if world.seen.demotions.contains(&third) { "yes" } else { "no" };
        println!("| {behaviour:?} | {:.3} | {told} | {honest:.3} |", f64::from(held) / f64::from(ticks));
    }
}
