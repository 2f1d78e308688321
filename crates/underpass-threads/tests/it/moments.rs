//! The local invariant (OThreads, section 3.2) when a random workload is stopped at random moments.
//! Wherever its threads are, as many activations run as there are activations' worth of runnable
//! threads, up to the maximum, and the rest of the maximum listens.

use crate::common::watchdog;
use std::collections::BTreeSet;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use underpass_harness::alone;
use underpass_os::thread::Tid;
use underpass_processor::Pool;
use underpass_threads::{Builder, JoinHandle, blocking, no_preempt, park, spawn, start, yield_now};

const MAXIMUM: u32 = 3;
const THREADS: u64 = 9;
const MOMENTS: u32 = 40;

/// The state of one workload.
#[derive(Default)]
struct World {
    /// From their next step on, threads stay in what they do.
    still: AtomicBool,
    end: AtomicBool,
    steps: AtomicUsize,
    /// The number of the moment.
    moment: AtomicUsize,
    /// For each moment, the kernel threads (activations) on which a thread computes and stays in
    /// that.
    computing: Mutex<BTreeSet<(usize, i32)>>,
    /// Ends the blocking calls.
    moved: Condvar,
    moves: Mutex<u32>,
}

impl World {
    fn still(&self) -> bool {
        self.still.load(Ordering::Acquire)
    }

    /// One step. It lasts until the end of the moment, if one has begun.
    fn step(&self, random: usize) {
        match random % 6 {
            0 => {
                for _ in 0..random % 3000 {
                    spin_loop();
                }
                self.compute();
            }
            1 => blocking(|| {
                let before = self.moves.lock().unwrap();
                let begun = *before;
                drop(self.moved.wait_while(before, |moves| *moves == begun && self.still()).unwrap());
            }),
            2 if self.still() => park(),
            3 => spawn(yield_now).join().unwrap(),
            4 => blocking(std::thread::yield_now),
            _ => yield_now(),
        }
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Computes until the end of the moment, and notes that for each moment. A thread that was
    /// preempted meanwhile may miss that one moment ended and another began.
    fn compute(&self) {
        let mut said = None;
        loop {
            let moment = self.moment.load(Ordering::Acquire);
            if !self.still() {
                return;
            }
            if said != Some(moment) {
                // A thread that waits for this lock is on another activation.
                let _held = no_preempt();
                self.computing.lock().unwrap().insert((moment, tid().as_raw()));
                said = Some(moment);
            }
            spin_loop();
        }
    }

    fn live(&self, mut seed: u64) {
        while !self.end.load(Ordering::Acquire) {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            self.step((seed >> 33) as usize);
        }
    }

    /// Lets all go on.
    fn go_on(&self, threads: &[JoinHandle<()>]) {
        self.still.store(false, Ordering::Release);
        // After that: a thread that sees the new number sees that the next moment has begun, if it
        // has.
        self.moment.fetch_add(1, Ordering::AcqRel);
        *self.moves.lock().unwrap() += 1;
        self.moved.notify_all();
        threads.iter().for_each(|thread| thread.thread().unpark());
    }

    /// How many activations' worth of threads compute and stay in that.
    fn computing(&self) -> usize {
        let now = self.moment.load(Ordering::Acquire);
        self.computing.lock().unwrap().iter().filter(|(moment, _)| *moment == now).count()
    }

    /// Waits until the counts are as they should be. Returns the last counts otherwise.
    fn check(&self) {
        let (pool, patience) = (start(), Instant::now());
        let mut agreed = 0;
        while agreed < 5 {
            // Sums are taken before and after, since more threads may begin to compute meanwhile.
            let before = self.computing();
            let counts = pool.activation_counts();
            let running = counts.computing + counts.preempting;
            let wanted = before.min(counts.maximum);
            let listens = counts.asleep >= counts.maximum - running.min(counts.maximum);
            let holds = counts.adds_up() && running == wanted && listens;
            agreed = if holds && self.computing() == before { agreed + 1 } else { 0 };
            assert!(patience.elapsed() < Duration::from_secs(60), "{before} activations compute: {counts}");
            std::thread::yield_now();
        }
    }
}

fn tid() -> Tid {
    underpass_os::thread::current()
}

#[test]
fn it_holds_whenever_a_random_workload_is_stopped() {
    alone!();
    let _dog = watchdog();
    Pool::configure(MAXIMUM);
    let world = Arc::new(World::default());
    let live = |seed: u64| {
        let world = world.clone();
        // A third have activations of their own, so that many may compute at once.
        let builder = if seed.is_multiple_of(3) { Builder::new().dedicated() } else { Builder::new() };
        builder.spawn(move || world.live(seed)).unwrap()
    };
    let threads: Vec<_> = (1..=THREADS).map(live).collect();
    let mut seed = 0x9e37u64;
    for _ in 0..MOMENTS {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let until = world.steps.load(Ordering::Relaxed) + (seed >> 33) as usize % 400;
        while world.steps.load(Ordering::Relaxed) < until {
            assert!(start().running() <= start().maximum(), "at any moment");
            std::thread::yield_now();
        }
        world.still.store(true, Ordering::Release);
        world.check();
        world.go_on(&threads);
    }
    world.end.store(true, Ordering::Release);
    for thread in threads {
        while !thread.is_finished() {
            world.go_on(std::slice::from_ref(&thread));
            std::thread::yield_now();
        }
        thread.join().unwrap();
    }
}
