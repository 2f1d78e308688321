//! The local invariant (OThreads, section 3.2) at quiescent points, and after random traffic.

use crate::fake;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use underpass_harness::alone;
use underpass_processor::Pool;

/// A gate that, once open, stays open.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.opened.wait(open).unwrap();
        }
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

#[test]
fn running_is_the_minimum_of_runnable_and_maximum() {
    alone!();
    let pool = fake::start(2);
    fake::rests();
    work_that_others_have_taken(pool);
    blocked_and_computing();
    for seed in 1..=20 {
        traffic(seed);
    }
}

/// Requests for work that other activations have taken already don't start new activations.
fn work_that_others_have_taken(pool: &Pool) {
    let before = pool.activations().count();
    for _ in 0..1_000 {
        pool.request();
        std::thread::yield_now();
    }
    fake::rests();
    let started = pool.activations().count() - before;
    // On a busy machine the monitor may have found some activations blocked.
    assert!(started < 8, "{started} were started");
}

/// Quiescent points with threads that block and with threads that compute.
fn blocked_and_computing() {
    let gate = Arc::new(Gate::default());
    for _ in 0..5 {
        let gate = gate.clone();
        fake::spawn(move || fake::blocking_call(|| gate.pass()));
    }
    // All are in their blocking calls, and none runs. Each keeps its permit if no other activation
    // wanted it.
    fake::settles(|counts| {
        counts.in_blocking_call + counts.detached == 5 && counts.computing + counts.waiting == 0
    });

    let stop = Arc::new(AtomicBool::new(false));
    let compute = || {
        let stop = stop.clone();
        fake::spawn(move || {
            while !stop.load(Ordering::Acquire) {
                spin_loop();
            }
        });
    };
    compute();
    fake::settles(|counts| {
        counts.computing == 1 && counts.waiting == 0 && counts.listeners() + counts.running == 2
    });
    compute();
    fake::settles(|counts| counts.running == 2 && counts.computing == 2 && counts.detached == 5);
    compute();
    // There are more than may run: all have begun in the end, and two run.
    fake::settles(|counts| counts.running == 2 && counts.ready + counts.preempted == 1);
    // A thread that returns from its blocking call waits for its turn.
    gate.open();
    stop.store(true, Ordering::Release);
    fake::rests();
}

/// Many threads that block, with announcement and without, spawn others, hand over to each other,
/// and compute.
fn traffic(seed: u32) {
    let random = Arc::new(AtomicU32::new(seed.wrapping_mul(0x9e37_79b9)));
    let ended = Arc::new(AtomicU32::new(0));
    for _ in 0..30 {
        let (random, ended) = (random.clone(), ended.clone());
        fake::spawn(move || act(6, &random, &ended));
    }
    fake::rests();
    assert!(ended.load(Ordering::Acquire) >= 30);
}

fn act(depth: u32, random: &Arc<AtomicU32>, ended: &Arc<AtomicU32>) {
    let number = random.fetch_add(0x6d2b_79f5, Ordering::Relaxed);
    let number = (number ^ number >> 15).wrapping_mul(0x2c1b_3c6d);
    match (number >> 16) % 8 {
        0..2 => {
            for _ in 0..number % 1000 {
                spin_loop();
            }
        }
        2..5 => {
            // Another thread ends the blocking call. An activation may have to be started for that
            // thread.
            let gate = Arc::new(Gate::default());
            let other = gate.clone();
            fake::spawn(move || other.open());
            fake::blocking_call(|| gate.pass());
        }
        5 => fake::blocking_call(std::thread::yield_now),
        6 => {
            let (random, ended) = (random.clone(), ended.clone());
            let home = fake::own();
            fake::spawn_at(home, move || act(depth.saturating_sub(2), &random, &ended));
        }
        _ => {
            let gate = Arc::new(Gate::default());
            let other = gate.clone();
            fake::spawn(move || other.open());
            if number.is_multiple_of(16) {
                // The monitor finds this, if the other thread doesn't run at once.
                gate.pass();
            }
        }
    }
    if depth > 0 {
        let (random, ended) = (random.clone(), ended.clone());
        fake::spawn(move || act(depth - 1, &random, &ended));
    }
    ended.fetch_add(1, Ordering::AcqRel);
}
