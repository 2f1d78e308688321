//! Cancellation: every blocking call that may be interrupted returns, whenever the request comes.
//! Locks, joins and the like are not interrupted.
//!
//! Each wait of `waits.rs` would last for ever. User-level threads and a plain kernel thread
//! perform it. They are cancelled before the wait, while they are suspended in it, and at a random
//! moment.

mod holds;
mod waits;

use crate::common::with_processors;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use underpass_threads::{Builder, Thread, cancelled, current, spawn, yield_now};
use waits::WAITS;

/// When the request comes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    /// Before the wait begins.
    Before,
    /// When the thread has begun, and other threads of its activation run: it is suspended.
    Suspended,
    /// At about the same time as the wait begins.
    Meanwhile,
}

/// Makes a thread wait and be cancelled. Its handle comes by `tell`.
fn wait_and_check(name: &str, wait: fn() -> bool, when: When, begun: &AtomicBool) {
    begun.store(true, Ordering::Release);
    while when == When::Before && !cancelled() {
        yield_now();
    }
    assert!(wait(), "{name} says that it was cancelled ({when:?})");
    assert!(cancelled(), "{name}: and it stays so");
}

fn cancel(thread: &Thread, when: When, begun: &AtomicBool) {
    while when != When::Meanwhile && !begun.load(Ordering::Acquire) {
        yield_now();
    }
    if when == When::Suspended {
        // With one activation the thread runs until it is suspended.
        (0..3).for_each(|_| yield_now());
    }
    thread.cancel();
}

#[test]
fn every_wait_of_a_user_level_thread_ends() {
    with_processors(&[1, 2], || {
        let rounds = || {
            for (name, wait) in WAITS {
                for when in [When::Before, When::Suspended, When::Meanwhile] {
                    for migrating in [false, true] {
                        let begun = Arc::new(AtomicBool::new(false));
                        let inside = begun.clone();
                        let builder = if migrating {
                            // SAFETY: across its waits it holds nothing that belongs to its kernel
                            // thread.
                            unsafe { Builder::new().migrating() }
                        } else {
                            Builder::new()
                        };
                        let thread =
                            builder.spawn(move || wait_and_check(name, *wait, when, &inside)).unwrap();
                        cancel(thread.thread(), when, &begun);
                        thread.join().unwrap();
                    }
                }
            }
        };
        for _ in 0..5 {
            spawn(rounds).join().unwrap();
        }
    });
}

#[test]
fn every_wait_of_a_plain_kernel_thread_ends() {
    with_processors(&[2], || {
        for (name, wait) in WAITS {
            for when in [When::Before, When::Suspended, When::Meanwhile] {
                let begun = Arc::new(AtomicBool::new(false));
                let inside = begun.clone();
                let (tell, told) = channel();
                let thread = std::thread::spawn(move || {
                    tell.send(current()).unwrap();
                    wait_and_check(name, *wait, when, &inside);
                });
                cancel(&told.recv().unwrap(), when, &begun);
                thread.join().unwrap();
            }
        }
    });
}

#[test]
fn locks_joins_and_meetings_are_not_interrupted() {
    with_processors(&[1, 2], || {
        for (name, hold) in holds::HOLDS {
            let done = spawn(move || {
                let released = Arc::new(AtomicBool::new(false));
                let ended = Arc::new(AtomicU32::new(0));
                let (wait, release) = hold();
                let (inside, ends) = (released.clone(), ended.clone());
                let thread = spawn(move || {
                    wait();
                    ends.fetch_add(1, Ordering::AcqRel);
                    (inside.load(Ordering::Acquire), cancelled())
                });
                // With one activation it waits by now. With more it may not have begun.
                (0..5).for_each(|_| yield_now());
                thread.cancel();
                (0..20).for_each(|_| yield_now());
                assert_eq!(ended.load(Ordering::Acquire), 0, "{name} goes on for a request alone");
                released.store(true, Ordering::Release);
                release();
                thread.join().unwrap()
            });
            assert_eq!(
                done.join().unwrap(),
                (true, true),
                "{name}: it waits until it is let go, and knows of the request"
            );
        }
    });
}

#[test]
fn a_request_outlives_waits_that_end_by_themselves() {
    with_processors(&[2], || {
        let thread = spawn(|| {
            let mut turns = 0u32;
            while !cancelled() {
                turns += 1;
                match turns % 3 {
                    0 => underpass_threads::park_timeout(std::time::Duration::from_micros(20)),
                    1 => underpass_threads::sleep(std::time::Duration::from_micros(20)),
                    _ => yield_now(),
                }
            }
            turns
        });
        let other = thread.thread().clone();
        (0..50).for_each(|_| other.unpark());
        other.cancel();
        thread.join().unwrap();
        // The thread is gone and the handle is not, and cancelling is harmless. The next thread
        // with the same block is not cancelled.
        other.cancel();
        let asked = (0..500).map(|_| spawn(cancelled)).filter(|_| true).map(|thread| thread.join().unwrap());
        assert!(!asked.fold(false, |any, asked| any | asked));
    });
}
