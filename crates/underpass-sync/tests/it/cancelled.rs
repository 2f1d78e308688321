//! Threads that are cancelled at any moment while they wait. Waits that can be interrupted report
//! it, the others go on, and nothing is lost.

use crate::crew::{Chance, crew, watchdog};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use underpass_sync::{Barrier, Cancelled, Condvar, Mutex, RwLock, Select, Semaphore, mpmc};
use underpass_threads::{cancelled, spawn, yield_now};

const SEEDS: u64 = 40;

/// Each thread waits in each way, again and again, until it is cancelled, and counts what it got.
struct Everything {
    permits: Semaphore,
    sum: Mutex<u64>,
    never: Condvar,
    pair: RwLock<(u64, u64)>,
    sent: AtomicU64,
}

#[test]
fn a_cancelled_waiter_leaves_all_in_order() {
    let _watchdog = watchdog("a_cancelled_waiter_leaves_all_in_order");
    for seed in 0..SEEDS {
        println!("seed {seed}");
        let all = Arc::new(Everything {
            permits: Semaphore::new(2),
            sum: Mutex::new(0),
            never: Condvar::new(),
            pair: RwLock::new((0, 0)),
            sent: AtomicU64::new(0),
        });
        let (sender, receiver) = mpmc::bounded::<u64>((seed % 3) as usize);
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let (all, sender, receiver) = (all.clone(), sender.clone(), receiver.clone());
                let mut chance = Chance(seed * 100 + number);
                spawn(move || {
                    let (mut added, mut received) = (0_u64, 0_u64);
                    while !cancelled() {
                        match chance.below(6) {
                            0 => match all.permits.acquire_many(chance.below(2) as usize + 1) {
                                Ok(_permit) => chance.dawdle(),
                                Err(Cancelled) => assert!(cancelled()),
                            },
                            1 => match sender.send(1) {
                                // Relaxed: it is read after all threads have been joined.
                                Ok(()) => drop(all.sent.fetch_add(1, Ordering::Relaxed)),
                                Err(error) => assert!(cancelled() && error.into_inner() == 1),
                            },
                            2 => match receiver.recv() {
                                Ok(one) => received += one,
                                Err(error) => assert_eq!(error, mpmc::RecvError::Cancelled),
                            },
                            3 => {
                                let sum = all.sum.lock().unwrap();
                                // No thread notifies it: the wait ends by cancellation.
                                let mut sum = all.never.wait(sum).unwrap();
                                assert!(cancelled());
                                *sum += 1;
                                added += 1;
                            }
                            4 => {
                                let mut pair = all.pair.write().unwrap();
                                pair.0 += 1;
                                chance.dawdle();
                                pair.1 += 1;
                            }
                            _ => {
                                let select = Select::new().recv(&receiver, |one| one.ok());
                                match select.wait() {
                                    Ok(one) => received += one.unwrap_or(0),
                                    Err(Cancelled) => assert!(cancelled()),
                                }
                            }
                        }
                    }
                    // A cancelled thread still gets locks.
                    *all.sum.lock().unwrap() += 1;
                    (added + 1, received)
                })
            })
            .collect();
        let mut chance = Chance(seed);
        for thread in &threads {
            (0..chance.below(30)).for_each(|_| yield_now());
            thread.thread().cancel();
        }
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(all.permits.available(), 2, "seed {seed}");
        assert_eq!(*all.sum.lock().unwrap(), ended.iter().map(|ended| ended.0).sum::<u64>(), "seed {seed}");
        let pair = *all.pair.try_read().expect("nobody has it, and nobody is thought to wait");
        assert_eq!(pair.0, pair.1, "seed {seed}");
        let received: u64 = ended.iter().map(|ended| ended.1).sum();
        assert_eq!(
            received + receiver.try_iter().sum::<u64>(),
            all.sent.load(Ordering::Relaxed),
            "seed {seed}"
        );
    }
}

#[test]
fn a_cancelled_thread_does_not_leave_a_barrier() {
    let _watchdog = watchdog("a_cancelled_thread_does_not_leave_a_barrier");
    for seed in 0..SEEDS {
        let (barrier, before) = (Arc::new(Barrier::new(4)), Arc::new(AtomicU64::new(0)));
        let (with, counted) = (barrier.clone(), before.clone());
        let early = spawn(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            with.wait();
            // Relaxed: the barrier itself has to synchronize.
            counted.load(Ordering::Relaxed)
        });
        early.thread().cancel();
        let counted = before.clone();
        let seen = crew(seed, 3, move |_, mut chance| {
            chance.dawdle();
            counted.fetch_add(1, Ordering::Relaxed);
            barrier.wait();
            counted.load(Ordering::Relaxed)
        });
        assert_eq!(early.join().unwrap(), 4, "seed {seed}");
        assert_eq!(seen, [4, 4, 4], "seed {seed}");
    }
}
