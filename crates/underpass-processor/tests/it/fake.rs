//! Threads that are closures: each runs to its end on the activation that takes it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};
use underpass_os::barrier;
use underpass_processor::{
    Activation, ActivationCounts, Line, MOST_ACTIVATIONS, Pool, SleepRole, Upcall, metrics, preempt, sleep,
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
        // Otherwise a scheduler that waits for the lock would hold up its processor.
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
                            SleepRole::Last { others: true, alone: false },
                            None,
                            found,
                        );
                        // It never ends, since jobs may be queued for this very activation.
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

/// Starts the domain with that maximum. Aborts the process if the test takes more than 100 s.
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

/// Queues `job` for any activation.
pub fn spawn(job: impl FnOnce() + Send + 'static) {
    ALIVE.fetch_add(1, Ordering::AcqRel);
    UNSTARTED.put(Box::new(job));
    pool().request();
}

/// Queues `job` for this activation only.
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

/// An announced blocking call.
pub fn blocking_call<R>(call: impl FnOnce() -> R) -> R {
    let own = own();
    own.begin_blocking();
    let result = call();
    own.end_blocking();
    result
}

/// Waits until `so` is true. If that never happens, the watchdog aborts.
pub fn until(so: impl Fn() -> bool) {
    while !so() {
        std::thread::yield_now();
    }
}

/// Waits until `what` holds of the counts and they add up, twice in a row.
pub fn settles(what: impl Fn(&ActivationCounts) -> bool) -> ActivationCounts {
    loop {
        let counts = pool().activation_counts();
        if counts.adds_up() && what(&counts) && counts == pool().activation_counts() {
            return counts;
        }
        std::thread::yield_now();
    }
}

/// Waits until all jobs have ended and all activations are idle. Then checks the local invariant.
pub fn rests() {
    until(|| ALIVE.load(Ordering::Acquire) == 0);
    let counts = settles(|counts| counts.running == 0 && counts.asleep == counts.activations);
    assert_eq!(counts.listeners(), counts.maximum);
}
