//! Time slices: threads that compute, allocate, lock and panic are preempted wherever they are.
//! Nothing is lost, blocked for ever or mixed up.
//!
//! The number of slices is 100, 300 with `$UNDERPASS_TEST_LONG`, or `$UNDERPASS_TEST_SLICES`: a
//! slice is 10 ms, so 12,000 are two minutes.

use crate::common::{long, setting};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use underpass_harness::alone;
use underpass_processor::{Pool, metrics};
use underpass_threads::{Builder, JoinHandle, checkpoint, no_preempt, spawn, yield_now};

/// Ends the process if neither a round nor a thread ends for two minutes.
fn watchdog(progress: impl Fn() -> u64 + Send + 'static) {
    std::thread::spawn(move || {
        let mut before = progress();
        loop {
            std::thread::sleep(Duration::from_secs(120));
            let now = progress();
            if now == before {
                eprintln!("hung: {} slices so far", metrics().preemptions());
                std::process::abort();
            }
            before = now;
        }
    });
}

/// Somewhat more than a slice.
const SPELL: Duration = Duration::from_millis(12);

fn slices() -> u64 {
    setting("UNDERPASS_TEST_SLICES", if long() { 300 } else { 100 })
}

std::thread_local! {
    /// Belongs to the kernel thread: pinned threads of one activation share it, one at a time.
    static OWNER: Cell<u64> = const { Cell::new(0) };
    static SCRATCH: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

underpass_threads::thread_local! {
    static MINE: Cell<u64> = Cell::new(0);
}

/// Work that takes a while, with a result that can be checked.
fn work(number: u64, round: u64, shared: &Mutex<BTreeMap<u64, u64>>) {
    match round % 5 {
        // Computes.
        0 => {
            let sum = (0..20_000u64).fold(number, |sum, i| sum.wrapping_mul(31).wrapping_add(i ^ round));
            let again = (0..20_000u64).fold(number, |sum, i| sum.wrapping_mul(31).wrapping_add(i ^ round));
            assert_eq!(std::hint::black_box(sum), again);
        }
        // Allocates.
        1 => {
            let many: Vec<Vec<u64>> = (0..200).map(|i| vec![i ^ number; (i % 37) as usize]).collect();
            assert!(
                many.iter()
                    .enumerate()
                    .all(|(i, v)| v.len() == i % 37 && v.iter().all(|&x| x == i as u64 ^ number))
            );
        }
        // Locks a `std` mutex. Its holder may be preempted, and the monitor finds a waiter blocked.
        2 => {
            for _ in 0..20 {
                let mut shared = shared.lock().unwrap();
                *shared.entry(number).or_insert(0) += 1;
            }
        }
        // Panics, with destructors on the way.
        3 => {
            struct Counted<'a>(&'a Cell<u32>);
            impl Drop for Counted<'_> {
                fn drop(&mut self) {
                    self.0.set(self.0.get() + 1);
                }
            }
            let dropped = Cell::new(0);
            let caught = catch_unwind(AssertUnwindSafe(|| {
                let _kept: Vec<_> = (0..10).map(|_| Counted(&dropped)).collect();
                std::panic::resume_unwind(Box::new(number))
            }));
            assert_eq!((caught.unwrap_err().downcast_ref(), dropped.get()), (Some(&number), 10));
        }
        // Uses the kernel thread's variables, which no other thread touches between two pauses.
        _ => {
            OWNER.set(number);
            SCRATCH.with_borrow_mut(|scratch| {
                scratch.clear();
                scratch.extend((0..500).map(|i| i ^ number));
            });
            SCRATCH.with_borrow(|scratch| {
                assert!(scratch.iter().enumerate().all(|(i, &x)| x == i as u64 ^ number))
            });
            assert_eq!(OWNER.get(), number);
        }
    }
}

#[test]
fn preempted_threads_lose_nothing() {
    alone!();
    let slices = slices();
    Pool::configure(2);
    let stop = Arc::new(AtomicBool::new(false));
    let shared = Arc::new(Mutex::new(BTreeMap::new()));
    let (steady, brief) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (rounds, ended) = (steady.clone(), brief.clone());
    watchdog(move || rounds.load(Ordering::Relaxed) + ended.load(Ordering::Relaxed));
    let mut threads: Vec<JoinHandle<u64>> = Vec::new();
    for number in 1..=6u64 {
        let (stop, shared, steady) = (stop.clone(), shared.clone(), steady.clone());
        threads.push(spawn(move || {
            let mut locked = 0;
            for round in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                MINE.with(|mine| mine.set(number * 1_000_000 + round));
                // Each kind of work in turn, for longer than a time slice without a yield.
                let begun = Instant::now();
                while begun.elapsed() < SPELL {
                    work(number, round, &shared);
                    locked += u64::from(round % 5 == 2) * 20;
                }
                steady.fetch_add(1, Ordering::Relaxed);
                match round % 7 {
                    0 => yield_now(),
                    3 => checkpoint(),
                    5 => drop(no_preempt()),
                    _ => {}
                }
                assert_eq!(MINE.with(Cell::get), number * 1_000_000 + round);
            }
            locked
        }));
    }
    let start = metrics().preemptions();
    // The threads that compute have to give way to unstarted ones.
    while metrics().preemptions() - start < slices {
        let (shared, counted) = (shared.clone(), brief.clone());
        let number = 100 + brief.load(Ordering::Relaxed);
        let thread = Builder::new().name("brief").spawn(move || {
            (0..5).for_each(|round| work(number, round, &shared));
            counted.fetch_add(1, Ordering::Relaxed);
        });
        thread.unwrap().join().unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    let locked: Vec<u64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let shared = shared.lock().unwrap();
    for (number, locked) in (1..).zip(locked) {
        assert_eq!(shared.get(&number).copied().unwrap_or(0), locked, "thread {number}");
    }
    let brief = brief.load(Ordering::Relaxed);
    assert!((0..brief).all(|i| shared.get(&(100 + i)) == Some(&20)), "each brief thread locked 20 times");
    println!(
        "{} slices, {brief} brief threads, {} rounds",
        metrics().preemptions(),
        steady.load(Ordering::Relaxed)
    );
}
