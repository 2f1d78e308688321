//! The same seeded programs with our primitives and with `std`'s must have the same results. Ours
//! run on user-level and kernel threads mixed, `std`'s on kernel threads.

use crate::crew::{Chance, crew, watchdog};
use std::sync::Arc;

const SEEDS: u64 = 6;
const THREADS: u64 = 9;

/// Programs over one set of primitives.
macro_rules! programs {
    ($name:ident, $($sync:ident)::+, $run:expr) => {
        mod $name {
            use super::*;
            use $($sync)::+::{Barrier, Condvar, LazyLock, Mutex, Once, OnceLock, RwLock, mpsc};

            /// Moves amounts between accounts, holding two mutexes at a time.
            pub fn transfers(seed: u64) -> Vec<i64> {
                let accounts: Arc<Vec<_>> = Arc::new((0..5).map(|_| Mutex::new(1000_i64)).collect());
                let shared = accounts.clone();
                $run(seed, THREADS, move |_, mut chance: Chance| {
                    for _ in 0..300 {
                        let (a, b) = (chance.below(5) as usize, chance.below(5) as usize);
                        let amount = chance.below(100) as i64;
                        if a == b {
                            continue;
                        }
                        let mut low = shared[a.min(b)].lock().unwrap();
                        chance.dawdle();
                        let mut high = shared[a.max(b)].lock().unwrap();
                        let sign = if a < b { 1 } else { -1 };
                        *low -= sign * amount;
                        *high += sign * amount;
                    }
                });
                accounts.iter().map(|account| *account.lock().unwrap()).collect()
            }

            /// Reads and writes a pair whose halves must agree. The writes of different threads
            /// commute.
            pub fn pairs(seed: u64) -> (u64, u64) {
                let pair = Arc::new(RwLock::new((0_u64, 0_u64)));
                let shared = pair.clone();
                $run(seed, THREADS, move |_, mut chance: Chance| {
                    for _ in 0..300 {
                        if chance.below(4) == 0 {
                            let add = chance.next();
                            let mut pair = shared.write().unwrap();
                            pair.0 = pair.0.wrapping_add(add);
                            chance.dawdle();
                            pair.1 = pair.1.wrapping_add(add);
                        } else {
                            let pair = shared.read().unwrap();
                            let first = pair.0;
                            chance.dawdle();
                            assert_eq!((first, first), *pair);
                        }
                    }
                });
                *pair.read().unwrap()
            }

            /// A bounded buffer made of a mutex and two conditions: all that goes in comes out.
            pub fn buffer(seed: u64) -> Vec<u64> {
                let shared = Arc::new((Mutex::new(Vec::new()), Condvar::new(), Condvar::new()));
                let taken = $run(seed, 8, move |number, mut chance: Chance| {
                    let (items, not_full, not_empty) = &*shared;
                    let mut taken = Vec::new();
                    for _ in 0..200 {
                        if number < 4 {
                            let item = chance.next();
                            let full = |items: &mut Vec<u64>| items.len() >= 3;
                            let mut items = not_full.wait_while(items.lock().unwrap(), full).unwrap();
                            items.push(item);
                            not_empty.notify_one();
                        } else {
                            let mut items = items.lock().unwrap();
                            while items.is_empty() {
                                items = not_empty.wait(items).unwrap();
                            }
                            taken.extend(items.pop());
                            drop(items);
                            not_full.notify_one();
                        }
                        chance.dawdle();
                    }
                    taken
                });
                sorted(taken)
            }

            /// Many senders and one receiver: each sender's messages arrive in order.
            pub fn messages(seed: u64, bound: Option<usize>) -> Vec<(u64, u64)> {
                let (sender, receiver) = match bound {
                    Some(bound) => {
                        let (sender, receiver) = mpsc::sync_channel(bound);
                        (Ok(sender), receiver)
                    }
                    None => {
                        let (sender, receiver) = mpsc::channel();
                        (Err(sender), receiver)
                    }
                };
                let reader = std::thread::spawn(move || receiver.iter().collect::<Vec<(u64, u64)>>());
                $run(seed, 5, move |number, mut chance: Chance| {
                    for _ in 0..200 {
                        let message = (number, chance.next());
                        match &sender {
                            Ok(sender) => sender.send(message).unwrap(),
                            Err(sender) => sender.send(message).unwrap(),
                        }
                        chance.dawdle();
                    }
                });
                let mut read = reader.join().unwrap();
                // A stable sort keeps the order of each sender's messages.
                read.sort_by_key(|message| message.0);
                read
            }

            /// Rounds of a barrier: no thread is ahead of a round, and each round has one leader.
            pub fn rounds(seed: u64) -> u64 {
                let shared = Arc::new((Barrier::new(THREADS as usize), Mutex::new(vec![0; 40])));
                let leads = $run(seed, THREADS, move |_, mut chance: Chance| {
                    let mut leads = 0;
                    for round in 0..40 {
                        shared.1.lock().unwrap()[round] += 1;
                        chance.dawdle();
                        leads += u64::from(shared.0.wait().is_leader());
                        assert_eq!(shared.1.lock().unwrap()[round], THREADS);
                    }
                    leads
                });
                leads.into_iter().sum()
            }

            /// Functions that run once, on the first thread that comes.
            pub fn once(seed: u64) -> (u64, Vec<u64>) {
                let shared = Arc::new((
                    (0..50).map(|_| Once::new()).collect::<Vec<_>>(),
                    (0..50).map(|_| OnceLock::new()).collect::<Vec<OnceLock<u64>>>(),
                    (0..50).map(|n| LazyLock::new(move || n * n)).collect::<Vec<_>>(),
                    Mutex::new(0),
                ));
                let seen = $run(seed, THREADS, move |_, mut chance: Chance| {
                    for n in 0..50 {
                        shared.0[n].call_once(|| {
                            chance.dawdle();
                            *shared.3.lock().unwrap() += 1;
                        });
                        let set = *shared.1[n].get_or_init(|| {
                            chance.dawdle();
                            n as u64 + 1
                        });
                        assert_eq!((set, *shared.2[n]), (n as u64 + 1, (n * n) as u64));
                    }
                    *shared.3.lock().unwrap()
                });
                (seen[0], seen)
            }
        }
    };
}

fn sorted(parts: Vec<Vec<u64>>) -> Vec<u64> {
    let mut all = parts.concat();
    all.sort_unstable();
    all
}

/// The model runs on kernel threads alone: `std`'s primitives would block activations.
fn kernel_crew<T: Send + 'static>(
    seed: u64,
    n: u64,
    body: impl Fn(u64, Chance) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let chance = |number: u64| Chance(seed.wrapping_mul(1_000_003).wrapping_add(number));
    let threads: Vec<_> = (0..n)
        .map(|number| {
            let (body, chance) = (body.clone(), chance(number));
            std::thread::spawn(move || body(number, chance))
        })
        .collect();
    drop(body);
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

programs!(ours, underpass_sync, crew);
programs!(model, std::sync, kernel_crew);

#[test]
fn mutexes_keep_accounts() {
    let _watchdog = watchdog("mutexes_keep_accounts");
    for seed in 0..SEEDS {
        assert_eq!(ours::transfers(seed), model::transfers(seed), "seed {seed}");
    }
}

#[test]
fn readers_and_writers_agree() {
    let _watchdog = watchdog("readers_and_writers_agree");
    for seed in 0..SEEDS {
        assert_eq!(ours::pairs(seed), model::pairs(seed), "seed {seed}");
    }
}

#[test]
fn conditions_guard_a_buffer() {
    let _watchdog = watchdog("conditions_guard_a_buffer");
    for seed in 0..SEEDS {
        assert_eq!(ours::buffer(seed), model::buffer(seed), "seed {seed}");
    }
}

#[test]
fn channels_keep_order() {
    let _watchdog = watchdog("channels_keep_order");
    for seed in 0..SEEDS {
        for bound in [None, Some(0), Some(1), Some(7)] {
            let (ours, model) = (ours::messages(seed, bound), model::messages(seed, bound));
            assert_eq!(ours, model, "seed {seed}, bound {bound:?}");
        }
    }
}

#[test]
fn barriers_come_round() {
    let _watchdog = watchdog("barriers_come_round");
    for seed in 0..SEEDS {
        assert_eq!(ours::rounds(seed), model::rounds(seed), "seed {seed}");
    }
}

#[test]
fn once_is_once() {
    let _watchdog = watchdog("once_is_once");
    for seed in 0..SEEDS {
        let ((ours, _), (model, _)) = (ours::once(seed), model::once(seed));
        assert_eq!(ours, model, "seed {seed}");
    }
}
