//! Threads as a program sees them.

use crate::common::watchdog;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use underpass_threads::{Builder, current, on_user_thread, sleep, spawn, yield_now};

#[test]
fn a_result_is_joined() {
    let _dog = watchdog();
    assert_eq!(spawn(|| "done").join().unwrap(), "done");
}

#[test]
fn a_panic_is_the_joiner_s() {
    let _dog = watchdog();
    let panic = spawn(|| panic!("oh")).join().unwrap_err();
    assert_eq!(underpass_threads::panic_message(&*panic), "oh");
}

#[test]
fn threads_join_threads() {
    let _dog = watchdog();
    fn fibonacci(n: u32) -> u64 {
        if n < 2 {
            return u64::from(n);
        }
        let other = spawn(move || fibonacci(n - 1));
        fibonacci(n - 2) + other.join().unwrap()
    }
    assert_eq!(spawn(|| fibonacci(16)).join().unwrap(), 987);
}

#[test]
fn a_thread_knows_itself() {
    let _dog = watchdog();
    assert!(!on_user_thread());
    let thread = Builder::new().name("editor").spawn(|| (on_user_thread(), current())).unwrap();
    let id = thread.thread().id();
    let (on_user, current) = thread.join().unwrap();
    assert!(on_user);
    assert_eq!((current.name(), current.id()), (Some("editor"), id));
}

#[test]
fn what_is_not_send_survives_a_pause() {
    let _dog = watchdog();
    thread_local!(static LOCAL: Cell<u32> = const { Cell::new(0) });
    let threads: Vec<_> = (0..100)
        .map(|_| {
            spawn(|| {
                let count = Rc::new(Cell::new(0));
                let kernel_thread = std::thread::current().id();
                for _ in 0..10 {
                    count.set(count.get() + 1);
                    LOCAL.set(LOCAL.get() + 1);
                    yield_now();
                    assert_eq!(
                        std::thread::current().id(),
                        kernel_thread,
                        "a started thread stays where it is"
                    );
                }
                count.get()
            })
        })
        .collect();
    assert_eq!(threads.into_iter().map(|t| t.join().unwrap()).sum::<u32>(), 1000);
}

#[test]
fn sleepers_sleep_side_by_side() {
    let _dog = watchdog();
    let begun = Instant::now();
    let order = Arc::new(AtomicU32::new(0));
    let threads: Vec<_> = [30u64, 20, 10]
        .into_iter()
        .map(|ms| {
            let order = order.clone();
            spawn(move || {
                sleep(Duration::from_millis(ms));
                assert!(begun.elapsed() >= Duration::from_millis(ms));
                order.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(order.load(Ordering::Relaxed), 3);
}

#[test]
fn many_threads_run_and_leave_nothing() {
    let _dog = watchdog();
    for _ in 0..20 {
        let threads: Vec<_> = (0..1000u64).map(|i| spawn(move || i)).collect();
        assert_eq!(threads.into_iter().map(|t| t.join().unwrap()).sum::<u64>(), 499_500);
    }
}

#[test]
fn kernel_threads_and_user_threads_join_each_other() {
    let _dog = watchdog();
    let user = spawn(|| {
        let inner = spawn(|| 1);
        let kernel = std::thread::spawn(|| spawn(|| 2).join().unwrap());
        inner.join().unwrap() + kernel.join().unwrap()
    });
    assert_eq!(user.join().unwrap(), 3);
}
