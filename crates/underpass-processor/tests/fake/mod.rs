//! Threads that are closures: they run to their ends on the activation that takes them.

#![allow(dead_code)]

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};
use underpass_os::barrier;
use underpass_processor::{
    Activation, ActivationCounts, Line, MOST_ACTIVATIONS, Pool, Role, Upcall, metrics, preempt, sleep,
};

pub type Job = Box<dyn FnOnce() + Send>;

/// Jobs in the order in which they came.
struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    any: AtomicBool,
}

impl Queue {
    const fn new() -> Self {
        Self { jobs: Mutex::new(VecDeque::new()), any: AtomicBool::new(false) }
    }

    fn put(&self, job: Job) {
        // A scheduler that waits for the lock would hold up its processor.
        preempt::disable();
        let mut jobs = self.jobs.lock().unwrap();
        jobs.push_back(job);
        self.any.store(true, Ordering::Release);
        drop(jobs);
        preempt::enable();
        barrier::light();
    }

    fn take(&self) -> Option<Job> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let mut jobs = self.jobs.lock().unwrap();
        let job = jobs.pop_front();
        self.any.store(!jobs.is_empty(), Ordering::Release);
        job
    }

    fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }
}

static UNSTARTED: Queue = Queue::new();
static PINNED: [Queue; MOST_ACTIVATIONS] = [const { Queue::new() }; MOST_ACTIVATIONS];
/// Jobs that have not ended.
static ALIVE: AtomicU32 = AtomicU32::new(0);
pub static BLOCKING: AtomicU32 = AtomicU32::new(0);
pub static COMPUTING: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static OWN: Cell<Option<&'static Activation>> = const { Cell::new(None) };
}

struct Fake;

impl Upcall for Fake {
    fn activate(&'static self, activation: &'static Activation) {
        OWN.set(Some(activation));
        let pinned = &PINNED[activation.number()];
        preempt::disable();
        loop {
            if activation.summoned() {
                activation.answer();
            }
            match pinned.take().or_else(|| UNSTARTED.take()) {
                Some(job) => {
                    activation.stepped();
                    preempt::enable();
                    job();
                    preempt::disable();
                    ALIVE.fetch_sub(1, Ordering::AcqRel);
                }
                None => {
                    let ended = activation.idle(|_| {
                        let none = std::iter::empty::<&dyn Line>();
                        let found = || pinned.any() || UNSTARTED.any();
                        sleep(
                            activation.parker(),
                            none,
                            Role::Last { others: true, alone: false },
                            None,
                            found,
                        );
                        // Jobs may be given to it by name.
                        false
                    });
                    if ended {
                        return activation.leave();
                    }
                }
            }
        }
    }

    fn unstarted(&self) -> bool {
        UNSTARTED.any()
    }

    fn takes(&self, _: &Activation) -> bool {
        UNSTARTED.any()
    }

    fn ready(&self, activation: &Activation) -> bool {
        PINNED[activation.number()].any()
    }

    fn found_blocking(&self, _: &Activation) {
        BLOCKING.fetch_add(1, Ordering::Relaxed);
    }

    fn found_computing(&self, _: &Activation) {
        COMPUTING.fetch_add(1, Ordering::Relaxed);
    }
}

/// Starts the domain with that maximum, and ends the process if the test takes far too long.
pub fn start(maximum: u32) -> &'static Pool {
    assert!(Pool::configure(maximum));
    let pool = Pool::start(&Fake);
    std::thread::spawn(move || {
        let end = Instant::now() + Duration::from_secs(100);
        while Instant::now() < end {
            std::thread::park_timeout(Duration::from_secs(1));
        }
        eprintln!("the test hangs: {}; {:?}", pool.activation_counts(), metrics());
        for activation in pool.activations() {
            eprintln!("{activation:?}");
        }
        std::process::abort();
    });
    pool
}

/// Lets any activation run `job`.
pub fn spawn(job: impl FnOnce() + Send + 'static) {
    ALIVE.fetch_add(1, Ordering::AcqRel);
    UNSTARTED.put(Box::new(job));
    pool().request();
}

/// Has this activation run `job`, and no other.
pub fn spawn_at(activation: &'static Activation, job: impl FnOnce() + Send + 'static) {
    ALIVE.fetch_add(1, Ordering::AcqRel);
    PINNED[activation.number()].put(Box::new(job));
    activation.parker().unpark();
    Pool::wake_monitor();
}

fn pool() -> &'static Pool {
    static FOUND: OnceLock<&'static Pool> = OnceLock::new();
    FOUND.get_or_init(|| Pool::start(&Fake))
}

/// The activation that runs the calling job.
pub fn own() -> &'static Activation {
    OWN.get().expect("a job runs on an activation")
}

/// A blocking call that says so.
pub fn bracket<R>(call: impl FnOnce() -> R) -> R {
    let own = own();
    own.begin_blocking();
    let result = call();
    own.end_blocking();
    result
}

/// Waits until `so`; the watchdog ends it if that never comes.
pub fn until(so: impl Fn() -> bool) {
    while !so() {
        std::thread::yield_now();
    }
}

/// Waits until the counts is so, and adds up, twice in a row.
pub fn settles(what: impl Fn(&ActivationCounts) -> bool) -> ActivationCounts {
    loop {
        let counts = pool().activation_counts();
        if counts.adds_up() && what(&counts) && counts == pool().activation_counts() {
            return counts;
        }
        std::thread::yield_now();
    }
}

/// Waits until all jobs have ended and everybody is idle; the local invariant holds then.
pub fn rests() {
    until(|| ALIVE.load(Ordering::Acquire) == 0);
    let counts = settles(|counts| counts.running == 0 && counts.asleep == counts.activations);
    assert_eq!(counts.listeners(), counts.maximum);
}
