//! The local invariant (OThreads, section 3.2) when a random workload is stopped at random moments:
//! wherever its threads are, as many activations run as there are activations' worth of runnable
//! threads, up to the maximum, and the rest of the maximum listens.

use std::collections::BTreeSet;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use underpass_os::thread::Tid;
use underpass_processor::Pool;
use underpass_threads::{Builder, JoinHandle, blocking, no_preempt, park, spawn, start, yield_now};

const MAXIMUM: u32 = 3;
const THREADS: u64 = 9;
const MOMENTS: u32 = 40;

/// Of one workload.
#[derive(Default)]
struct World {
    /// Threads are to stay in what they do, from their next step on.
    still: AtomicBool,
    end: AtomicBool,
    steps: AtomicUsize,
    /// The number of the moment.
    moment: AtomicUsize,
    /// By moment, kernel threads, which are activations, on which a thread computes that stays in
    /// that.
    computing: Mutex<BTreeSet<(usize, i32)>>,
    /// Those in blocking calls go on.
    moved: Condvar,
    moves: Mutex<u32>,
}

impl World {
    fn still(&self) -> bool {
        self.still.load(Ordering::Acquire)
    }

    /// One step, which lasts as long as the world is still.
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

    /// Computes as long as the world is still, and says so for each moment: who was preempted
    /// meanwhile may miss that it moved between two.
    fn compute(&self) {
        let mut said = None;
        loop {
            let moment = self.moment.load(Ordering::Acquire);
            if !self.still() {
                return;
            }
            if said != Some(moment) {
                // Who waits for this lock is of another activation.
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
        // After that: who sees the new number sees the stillness of the next moment, if any.
        self.moment.fetch_add(1, Ordering::AcqRel);
        *self.moves.lock().unwrap() += 1;
        self.moved.notify_all();
        threads.iter().for_each(|thread| thread.thread().unpark());
    }

    /// Activations' worth of threads that compute and stay in that.
    fn computing(&self) -> usize {
        let now = self.moment.load(Ordering::Acquire);
        self.computing.lock().unwrap().iter().filter(|(moment, _)| *moment == now).count()
    }

    /// Waits until the counts are as they should be, and says what they were otherwise.
    fn check(&self) {
        let (pool, patience) = (start(), Instant::now());
        let mut agreed = 0;
        while agreed < 5 {
            // Sums are taken before and after: more may come to compute meanwhile.
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

fn watchdog() {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(300));
        eprintln!("hung: {}", start().activation_counts());
        std::process::abort();
    });
}

#[test]
fn it_holds_whenever_a_random_workload_is_stopped() {
    watchdog();
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
