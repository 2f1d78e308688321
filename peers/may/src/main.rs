//! What may takes, with one worker and nothing but the scheduler: no work stealing, no cancellation
//! of I/O.

mod start;

use may::coroutine::yield_now;
use may::sync::{Condvar, FastBlocker, Mutex};
use start::{start, within};
use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use underpass_peer::{BATCH, Children};

/// `yield`: two coroutines give way to each other, `count` switches in all.
fn yields(count: u64) -> Duration {
    within(move || {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let other = start(move || {
            let mut turns = 0;
            // Relaxed: both run on the one worker.
            while !seen.load(Ordering::Relaxed) {
                turns += 1;
                yield_now();
            }
            turns
        });
        let begun = Instant::now();
        for _ in 0..count.div_ceil(2) {
            yield_now();
        }
        let taken = begun.elapsed();
        stop.store(true, Ordering::Relaxed);
        let turns: u64 = other.join().expect("it only counts");
        assert!(turns >= count / 2, "{turns} turns of the other coroutine in {count} switches");
        taken
    })
}

/// `fork-join`: a coroutine starts a child and waits for its end and its result, `count` times.
fn fork_join(count: u64) -> Duration {
    within(move || {
        let begun = Instant::now();
        for number in 0..count {
            let child = start(move || black_box(number) + 1);
            black_box(child.join().expect("it only adds"));
        }
        begun.elapsed()
    })
}

/// `fork`: a coroutine starts `count` children, and after each [`BATCH`] gives way until all of
/// them have run.
fn fork(count: u64) -> Duration {
    static CHILDREN: Children = Children::new();
    within(move || {
        let begun = Instant::now();
        let mut started = CHILDREN.have_run();
        let last = started + count;
        while started < last {
            let batch = BATCH.min(last - started);
            for _ in 0..batch {
                drop(start(|| CHILDREN.run()));
            }
            started += batch;
            while CHILDREN.have_run() < started {
                yield_now();
            }
        }
        begun.elapsed()
    })
}

/// `lock`: acquires and releases a mutex that nobody else wants.
fn lock(count: u64) -> Duration {
    within(move || {
        let mutex = Mutex::new(0_u64);
        let begun = Instant::now();
        for _ in 0..count {
            *black_box(&mutex).lock().expect("nobody panics") += 1;
        }
        begun.elapsed()
    })
}

/// `ping-pong` and `park`: two coroutines, each with a blocker that the other unparks, may's
/// fastest way to wait.
fn park(count: u64) -> Duration {
    within(move || {
        let ours = Arc::new((FastBlocker::new(), FastBlocker::new()));
        let theirs = ours.clone();
        let other = start(move || {
            for _ in 0..=count {
                theirs.0.park(None).expect("nobody cancels");
                theirs.1.unpark();
            }
        });
        let cycle = || {
            ours.0.unpark();
            ours.1.park(None).expect("nobody cancels");
        };
        cycle();
        let begun = Instant::now();
        for _ in 0..count {
            cycle();
        }
        let taken = begun.elapsed();
        other.join().expect("it only waits");
        taken
    })
}

/// `ping-pong-condvar`: two coroutines hand each other the turn under a mutex that is let go of
/// only in `wait`.
fn ping_pong_condvar(count: u64) -> Duration {
    within(move || {
        let table = Arc::new((Mutex::new(false), Condvar::new()));
        let theirs = table.clone();
        let other = start(move || {
            let mut turn = theirs.0.lock().expect("nobody panics");
            for _ in 0..count {
                while !*turn {
                    turn = theirs.1.wait(turn).expect("nobody panics");
                }
                *turn = false;
                theirs.1.notify_one();
            }
        });
        let mut turn = table.0.lock().expect("nobody panics");
        let begun = Instant::now();
        for _ in 0..count {
            *turn = true;
            table.1.notify_one();
            while *turn {
                turn = table.1.wait(turn).expect("nobody panics");
            }
        }
        let taken = begun.elapsed();
        drop(turn);
        other.join().expect("it only waits");
        taken
    })
}

fn main() -> io::Result<()> {
    // A batch of children in the pool, so that none of them has to be mapped anew.
    may::config().set_workers(1).set_pool_capacity(2 * BATCH as usize);
    underpass_peer::serve(
        "may",
        "may",
        &[
            ("yield", &yields),
            ("fork-join", &fork_join),
            ("fork", &fork),
            ("lock", &lock),
            ("ping-pong", &park),
            ("ping-pong-condvar", &ping_pong_condvar),
            ("park", &park),
            ("call", &underpass_peer::call),
        ],
    )
}
