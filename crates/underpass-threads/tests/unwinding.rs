//! Panics, backtraces and destructors across the switch.

mod common;

use common::with_processors;
use std::backtrace::Backtrace;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use underpass_threads::{
    Builder, JoinHandle, current, inject, panic_message, panicking, park, sleep, spawn, yield_now,
};

/// Runs a closure when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Panics without the hook's message, which would only fill the log.
fn panic_quietly(with: &'static str) -> ! {
    resume_unwind(Box::new(with))
}

/// The payload of a thread's panic.
fn payload<T: std::fmt::Debug>(thread: JoinHandle<T>) -> &'static str {
    *thread.join().unwrap_err().downcast::<&'static str>().unwrap()
}

/// Makes `depth` frames. Each has something to drop and is suspended once. The innermost one
/// panics.
#[inline(never)]
fn descend(depth: u32, order: &Mutex<Vec<u32>>) -> u32 {
    let _noted = OnDrop(|| order.lock().unwrap().push(depth));
    yield_now();
    if depth == 0 {
        sleep(Duration::from_micros(50));
        panic_quietly("bottom");
    }
    let below = descend(depth - 1, order);
    yield_now();
    below + depth
}

#[test]
fn a_panic_deep_down_runs_destructors_from_the_innermost_out() {
    with_processors(&[1, 2], || {
        let threads: Vec<_> = (0..20)
            .map(|_| {
                let order = Arc::new(Mutex::new(Vec::new()));
                let inside = order.clone();
                (order, spawn(move || descend(9, &inside)))
            })
            .collect();
        for (order, thread) in threads {
            assert_eq!(payload(thread), "bottom");
            assert_eq!(*order.lock().unwrap(), (0..10).collect::<Vec<_>>());
        }
    });
}

#[test]
fn the_message_of_a_panic_is_the_joiner_s() {
    with_processors(&[2], || {
        std::panic::set_hook(Box::new(|_| {}));
        let literal = spawn(|| panic!("plain")).join().unwrap_err();
        assert_eq!(panic_message(&*literal), "plain");
        let number = 7;
        let formatted = spawn(move || panic!("number {number}")).join().unwrap_err();
        assert_eq!(panic_message(&*formatted), "number 7");
        let other = spawn(|| panic_any(vec![1, 2])).join().unwrap_err();
        assert_eq!(*other.downcast::<Vec<i32>>().unwrap(), [1, 2]);
        // Joined from a plain kernel thread, and from a user-level one.
        let nested = spawn(|| payload(spawn(|| -> () { panic_quietly("inner") }))).join().unwrap();
        assert_eq!(nested, "inner");
    });
}

#[inline(never)]
fn frame_a_of_the_user(out: &mut String) {
    frame_b_of_the_user(out);
    std::hint::black_box(out);
}

#[inline(never)]
fn frame_b_of_the_user(out: &mut String) {
    for _ in 0..3 {
        yield_now();
    }
    sleep(Duration::from_micros(50));
    *out = Backtrace::force_capture().to_string();
    std::hint::black_box(out);
}

/// Whether a backtrace shows the loop of an activation: `run` of the scheduler, in any spelling.
fn has_loop(trace: &str) -> bool {
    let lines: Vec<&str> = trace.lines().map(str::trim_end).collect();
    lines.windows(2).any(|frame| frame[0].ends_with("run") && frame[1].contains("/sched/scheduler.rs:"))
}

#[test]
fn a_backtrace_after_switches_shows_the_user_s_frames_and_ends() {
    with_processors(&[1, 2], || {
        // On the stack of an activation it does show the loop.
        let (tells, told) = std::sync::mpsc::channel();
        inject(None, move || tells.send(Backtrace::force_capture().to_string()).unwrap());
        let below = told.recv().unwrap();
        assert!(has_loop(&below), "the loop has this name:\n{below}");
        let threads: Vec<_> = (0..4)
            .map(|_| {
                spawn(|| {
                    let mut trace = String::new();
                    frame_a_of_the_user(&mut trace);
                    trace
                })
            })
            .collect();
        for thread in threads {
            let trace = thread.join().unwrap();
            let at = |name| trace.find(name).unwrap_or_else(|| panic!("no {name} in\n{trace}"));
            assert!(at("frame_b_of_the_user") < at("frame_a_of_the_user"), "the innermost comes first");
            assert!(trace.lines().count() < 200, "it ends:\n{trace}");
            // The backtrace does not go on into frames that the user did not call: an activation's
            // loop lies on another stack.
            assert!(!has_loop(&trace), "it ends at the thread's stack:\n{trace}");
        }
    });
}

#[test]
fn a_panic_is_caught_across_suspensions() {
    with_processors(&[1, 2], || {
        let threads: Vec<_> = (0..10u32)
            .map(|number| {
                spawn(move || {
                    let mut caught = 0;
                    for round in 0..20 {
                        let result = catch_unwind(|| {
                            yield_now();
                            let _later = OnDrop(yield_now);
                            if (number + round) % 2 == 0 {
                                panic_quietly("half of them");
                            }
                            sleep(Duration::from_micros(1));
                        });
                        caught += u32::from(result.is_err());
                        assert!(!panicking());
                        yield_now();
                    }
                    caught
                })
            })
            .collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() == 10));
    });
}

/// A way of letting other threads run.
type Way = fn();

/// All of them.
const WAYS: [Way; 4] = [
    || (0..3).for_each(|_| yield_now()),
    || sleep(Duration::from_micros(200)),
    || spawn(|| (0..3).for_each(|_| yield_now())).join().unwrap(),
    || {
        let me = current();
        let waker = spawn(move || me.unpark());
        park();
        waker.join().unwrap();
    },
];

#[test]
fn panicking_is_said_of_the_thread_that_unwinds_and_of_no_other() {
    with_processors(&[1], || {
        for way in WAYS {
            let wrong = Arc::new(AtomicU32::new(0));
            let unwinding = Arc::new(AtomicU32::new(0));
            let looks = Arc::new(AtomicU32::new(0));
            let done = Arc::new(AtomicU32::new(0));
            let bystanders: Vec<_> = (0..3)
                .map(|_| {
                    let (wrong, looks) = (wrong.clone(), looks.clone());
                    let (unwinding, done) = (unwinding.clone(), done.clone());
                    spawn(move || {
                        while done.load(Ordering::Relaxed) == 0 {
                            looks.fetch_add(unwinding.load(Ordering::Relaxed), Ordering::Relaxed);
                            wrong.fetch_add(u32::from(panicking()), Ordering::Relaxed);
                            yield_now();
                        }
                    })
                })
                .collect();
            let inside = unwinding.clone();
            let thread = spawn(move || {
                let _slow = OnDrop(|| {
                    inside.store(1, Ordering::Relaxed);
                    for _ in 0..5 {
                        assert!(panicking(), "before it lets others run");
                        way();
                        assert!(panicking(), "and after");
                    }
                    inside.store(0, Ordering::Relaxed);
                });
                panic_quietly("slowly");
            });
            assert_eq!(payload::<()>(thread), "slowly");
            done.store(1, Ordering::Relaxed);
            bystanders.into_iter().for_each(|bystander| bystander.join().unwrap());
            assert!(looks.load(Ordering::Relaxed) > 0, "somebody looked meanwhile");
            assert_eq!(wrong.load(Ordering::Relaxed), 0);
        }
    });
}

#[test]
fn threads_that_unwind_at_the_same_time_know_it_each_by_itself() {
    with_processors(&[1, 2], || {
        let threads: Vec<_> = (0..12u32)
            .map(|number| {
                spawn(move || {
                    for round in 0..10u32 {
                        let way = WAYS[(number + round) as usize % WAYS.len()];
                        let mut during = false;
                        let result = catch_unwind(AssertUnwindSafe(|| {
                            let _slow = OnDrop(|| {
                                way();
                                during = panicking();
                                way();
                            });
                            panic_quietly("one of many");
                        }));
                        assert!(result.is_err() && during, "unwinding, and knows it");
                        assert!(!panicking(), "it is over");
                        way();
                        assert!(!panicking(), "and stays over, while others unwind");
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(!spawn(panicking).join().unwrap());
        // The kernel threads' own counts are zero again. `std` reads them when it decides whether
        // to poison a lock.
        let counts: Vec<_> = (0..64).map(|_| spawn(std::thread::panicking)).collect();
        assert!(counts.into_iter().all(|thread| !thread.join().unwrap()));
    });
}

#[test]
fn a_migrating_thread_unwinds_wherever_it_goes() {
    with_processors(&[2], || {
        let threads: Vec<_> = (0..4)
            .map(|number| {
                // SAFETY: it holds nothing that belongs to its kernel thread across its pauses,
                // unless `std` does so for it.
                let builder = unsafe { Builder::new().migrating() };
                builder.spawn(move || {
                    for round in 0..50 {
                        let mut during = true;
                        let result = catch_unwind(AssertUnwindSafe(|| {
                            let _slow = OnDrop(|| {
                                WAYS[(number + round) % WAYS.len()]();
                                during = panicking();
                            });
                            panic_quietly("on the way");
                        }));
                        assert!(result.is_err() && during);
                        assert!(!panicking());
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.unwrap().join().unwrap());
        let counts: Vec<_> = (0..64).map(|_| spawn(std::thread::panicking)).collect();
        assert!(counts.into_iter().all(|thread| !thread.join().unwrap()), "each count was given back");
    });
}

/// Counts how often it is dropped. Large ones don't fit into a control block.
struct Counted<const LARGE: usize>(
    Arc<AtomicU32>,
    #[allow(dead_code, reason = "its size matters")] [u64; LARGE],
);

impl<const LARGE: usize> Drop for Counted<LARGE> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        // A result's destructor may suspend the thread that drops it.
        yield_now();
    }
}

/// Results that are joined, detached and raced for. Each is dropped exactly once, as is what the
/// body held.
fn fates<const LARGE: usize>(round: u32) {
    let dropped = Arc::new(AtomicU32::new(0));
    let start = |pauses: u32, panics: bool| {
        let [held, result] = [0, 1].map(|_| Counted(dropped.clone(), [0; LARGE]));
        spawn(move || {
            let _held = held;
            (0..pauses).for_each(|_| yield_now());
            if panics {
                drop(result);
                panic_quietly("without a result");
            }
            result
        })
    };
    let mut expected = 0;
    for pauses in 0..3 {
        // Joined; joined after a panic; detached, mostly before its end; detached after its end;
        // the drop of its handle races with its end.
        drop(start(pauses, false).join().unwrap());
        assert!(start(pauses, true).join().is_err());
        drop(start(pauses, false));
        drop(start(pauses, true));
        let ended = start(pauses, false);
        while !ended.is_finished() {
            yield_now();
        }
        drop(ended);
        let races = start(pauses, false);
        (0..(round + pauses) % 5).for_each(|_| yield_now());
        drop(races);
        expected += 12;
    }
    // The watchdog bounds this.
    while dropped.load(Ordering::Relaxed) < expected {
        yield_now();
    }
    // A second drop has time to happen.
    (0..20).for_each(|_| yield_now());
    assert_eq!(dropped.load(Ordering::Relaxed), expected);
    while Arc::strong_count(&dropped) > 1 {
        yield_now();
    }
}

#[test]
fn a_result_is_dropped_exactly_once_whatever_becomes_of_it() {
    with_processors(&[1, 2, 4], || {
        for round in 0..40 {
            fates::<0>(round);
            spawn(move || fates::<0>(round)).join().unwrap();
            spawn(move || fates::<32>(round)).join().unwrap();
        }
    });
}
