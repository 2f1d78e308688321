//! Tasks that are injected between two threads: where they run, and what they may not do.

use crate::common::{aborts, with_processors};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use underpass_processor::preempt;
use underpass_sync::Semaphore;
use underpass_threads::{
    activation, blocking, checkpoint, in_injected_task, inject, inject_anywhere, no_preempt, on_user_thread,
    sleep, spawn,
};

/// Waits until `done`, which the watchdog bounds.
fn until(done: impl Fn() -> bool) {
    while !done() {
        std::thread::yield_now();
    }
}

#[test]
fn a_task_runs_with_preemption_off_and_apart_from_all_threads() {
    with_processors(&[1, 2], || {
        let home = spawn(activation).join().unwrap();
        let (ran, count) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU32::new(0)));
        for near in [home, None, Some(usize::MAX)].into_iter().cycle().take(30) {
            let (ran, count) = (ran.clone(), count.clone());
            inject(near, move || {
                let apart = preempt::disabled() && in_injected_task() && !on_user_thread();
                count.fetch_add(u32::from(apart && activation().is_some()), Ordering::Relaxed);
                ran.release(1);
            });
        }
        ran.acquire_many(30).unwrap().forget();
        assert_eq!(count.load(Ordering::Relaxed), 30);
        assert!(!in_injected_task());
    });
}

#[test]
fn a_task_starts_the_first_activation_of_a_domain() {
    with_processors(&[1], || {
        let ran = Arc::new(AtomicBool::new(false));
        let sets = ran.clone();
        inject(None, move || sets.store(true, Ordering::Relaxed));
        until(|| ran.load(Ordering::Relaxed));
    });
}

#[test]
fn a_task_does_not_wait_for_a_thread_that_computes_if_it_may_go_elsewhere() {
    with_processors(&[1, 2], || {
        let (begun, ran) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (begins, sees) = (begun.clone(), ran.clone());
        let hog = spawn(move || {
            begins.store(true, Ordering::Relaxed);
            while !sees.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        until(|| begun.load(Ordering::Relaxed));
        inject_anywhere(move || ran.store(true, Ordering::Relaxed));
        hog.join().unwrap();
    });
}

#[test]
fn a_thread_without_preemption_delays_a_task() {
    with_processors(&[1], || {
        let ran = Arc::new(AtomicU32::new(0));
        let (holds, injected) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (sees, held, goes) = (ran.clone(), holds.clone(), injected.clone());
        let thread = spawn(move || {
            let section = no_preempt();
            held.store(true, Ordering::Relaxed);
            until(|| goes.load(Ordering::Relaxed));
            // More than one slice, so that its end is deferred, too.
            let begun = std::time::Instant::now();
            while begun.elapsed() < Duration::from_millis(30) {
                std::hint::spin_loop();
            }
            let early = sees.load(Ordering::Relaxed);
            drop(section);
            until(|| {
                checkpoint();
                sees.load(Ordering::Relaxed) == 2
            });
            early
        });
        let (one, other) = (ran.clone(), ran);
        until(|| holds.load(Ordering::Relaxed));
        inject(Some(0), move || {
            one.fetch_add(1, Ordering::Relaxed);
        });
        inject_anywhere(move || {
            other.fetch_add(1, Ordering::Relaxed);
        });
        injected.store(true, Ordering::Relaxed);
        assert_eq!(thread.join().unwrap(), 0);
    });
}

#[test]
fn a_task_that_waits_is_refused() {
    let said = aborts(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        inject(None, move || drop(semaphore.acquire()));
        sleep(Duration::from_secs(60));
    });
    assert!(said.contains("a handler of interrupts") && said.contains("waits for a semaphore"), "{said}");
}

#[test]
fn a_task_that_sleeps_is_refused() {
    let said = aborts(|| {
        inject(None, || sleep(Duration::from_millis(1)));
        sleep(Duration::from_secs(60));
    });
    assert!(said.contains("waits for a time, which is not allowed there"), "{said}");
}

#[test]
fn a_task_that_blocks_in_the_kernel_is_refused() {
    let said = aborts(|| {
        inject(None, || blocking(|| ()));
        sleep(Duration::from_secs(60));
    });
    assert!(said.contains("waits for a blocking call"), "{said}");
}

#[test]
fn a_task_that_panics_ends_the_process_with_its_message() {
    let said = aborts(|| {
        inject(None, || panic!("an unlucky task"));
        sleep(Duration::from_secs(60));
    });
    assert!(said.contains("an unlucky task") && said.contains("has panicked"), "{said}");
}
