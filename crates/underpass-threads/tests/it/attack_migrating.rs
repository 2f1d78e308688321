//! Migrating threads: what the compiler remembers of a kernel thread, and migrating threads that
//! are also dedicated.

use crate::common::with_processors;
use std::sync::atomic::{AtomicU32, Ordering};
use underpass_processor::preempt;
use underpass_threads::{Builder, JoinHandle, critical, no_preempt, spawn, yield_now};

const YIELDS: u32 = 20_000;

/// As in a program: all of this is inlined into one function.
#[inline(never)]
fn yield_in_a_loop() {
    for _ in 0..YIELDS {
        yield_now();
    }
}

#[inline(never)]
fn hold_in_a_loop(count: &AtomicU32) {
    for _ in 0..YIELDS {
        let held = critical();
        count.fetch_add(1, Ordering::Relaxed);
        drop(held);
        yield_now();
        let held = no_preempt();
        count.fetch_add(1, Ordering::Relaxed);
        assert!(preempt::disabled());
        drop(held);
    }
}

fn migrating(builder: Builder, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    // SAFETY: the bodies here hold nothing that belongs to their kernel thread.
    unsafe { builder.migrating() }.spawn(body).unwrap()
}

/// In optimized builds, the address of a kernel thread's variable must not be kept over a switch:
/// another kernel thread's variable would be changed.
#[test]
fn sections_are_counted_where_the_thread_is_now() {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    with_processors(&[2, 4], || {
        for _ in 0..3 {
            let threads: Vec<_> = (0..6)
                .map(|_| {
                    migrating(Builder::new(), || {
                        yield_in_a_loop();
                        hold_in_a_loop(&COUNT);
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            let disabled = || {
                yield_now();
                preempt::disabled()
            };
            let threads: Vec<_> = (0..50).map(|_| spawn(disabled)).collect();
            assert!(!threads.into_iter().any(|thread| thread.join().unwrap()));
        }
    });
}

/// An activation that a dedicated thread has left by migrating must not stay closed to other
/// threads.
#[test]
fn a_dedicated_thread_that_migrates_closes_no_activation_behind_it() {
    with_processors(&[1, 2], || {
        let threads: Vec<_> = (0..4)
            .map(|_| migrating(Builder::new().dedicated(), || (0..500).for_each(|_| yield_now())))
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        spawn(yield_now).join().unwrap();
    });
}
