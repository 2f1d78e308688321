//! Locks that are biased for long, and lose their bias again and again, used by threads of all
//! kinds.

use crate::crew::{Chance, Member, member, watchdog};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use underpass_sync::{Condvar, Mutex, Semaphore};
use underpass_threads::{Builder, JoinHandle, yield_now};

const SEEDS: u64 = 4;
/// More uses in a row than a lock needs to become biased.
const LONG: u64 = 3000;

#[derive(Default)]
struct Shared {
    sum: Mutex<u64>,
    inside: AtomicU64,
    changed: Condvar,
}

impl Shared {
    fn add(&self, then: impl FnOnce()) {
        let mut sum = self.sum.lock().unwrap();
        // Relaxed: the mutex itself has to synchronize.
        assert_eq!(self.inside.fetch_add(1, Ordering::Relaxed), 0);
        *sum += 1;
        then();
        self.inside.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Long runs of uses by one thread, and single uses in between. Returns how many uses there were.
fn use_often(shared: &Shared, seats: &Semaphore, chance: &mut Chance) -> u64 {
    let mut uses = 0;
    for _ in 0..12 {
        let run = if chance.below(2) == 0 { LONG } else { chance.below(20) };
        for _ in 0..run {
            shared.add(|| ());
            let seat = seats.acquire().unwrap();
            assert_eq!(seats.available(), 0, "there is one");
            drop(seat);
        }
        // Others may wait for it: in vain, with a deadline, or while this thread holds it.
        shared.add(|| chance.dawdle());
        let sum = shared.sum.lock().unwrap();
        drop(shared.changed.wait_timeout(sum, chance.moment()).unwrap());
        shared.changed.notify_one();
        uses += run + 1;
    }
    uses
}

fn migrating(seed: u64, shared: &Arc<(Shared, Semaphore)>) -> JoinHandle<u64> {
    let (shared, mut chance) = (shared.clone(), Chance(seed ^ 0xabcd));
    let body = move || {
        let uses = use_often(&shared.0, &shared.1, &mut chance);
        for _ in 0..200 {
            // Taken on one kernel thread and, perhaps, released on another.
            shared.0.add(yield_now);
        }
        uses + 200
    };
    // SAFETY: the body keeps nothing that belongs to a kernel thread.
    unsafe { Builder::new().migrating() }.spawn(body).unwrap()
}

#[test]
fn owners_come_and_go() {
    let _watchdog = watchdog("owners_come_and_go");
    for seed in 0..SEEDS {
        println!("seed {seed}");
        let shared = Arc::new((Shared::default(), Semaphore::new(1)));
        let members: Vec<_> = (0..6)
            .map(|number| {
                let shared = shared.clone();
                member(seed, number, move |_, mut chance| use_often(&shared.0, &shared.1, &mut chance))
            })
            .collect();
        let moving = [migrating(seed, &shared), migrating(seed + 100, &shared)];
        let uses: u64 = members.into_iter().map(Member::join).sum();
        let moved: u64 = moving.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(*shared.0.sum.lock().unwrap(), uses + moved, "seed {seed}");
        assert_eq!(shared.1.available(), 1, "seed {seed}");
    }
}
