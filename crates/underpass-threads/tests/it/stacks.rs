//! Closures on stacks of their own, and closures that block where they are.

use crate::common::{setting, test_command, watchdog, with_processors};
use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use underpass_harness::alone;
use underpass_threads::{
    Builder, State, blocking, blocking_here, current, dump, panicking, park, spawn, stack_bounds, with_stack,
    yield_now,
};

/// Usable bytes of the stack of the caller.
fn size() -> usize {
    stack_bounds().map(|(low, high)| high - low).unwrap()
}

#[inline(never)]
fn goes_deep(depth: u64) -> u64 {
    let frame = black_box([1u64; 16]);
    if depth == 0 { 0 } else { goes_deep(depth - 1) + frame[3] }
}

#[test]
fn a_closure_has_the_stack_that_it_asks_for_wherever_it_runs() {
    let _dog = watchdog();
    let deep = || {
        let before = size();
        // Neither moves to another kernel thread.
        let all = Rc::new(RefCell::new(Vec::new()));
        let inside = with_stack(32 << 20, || {
            all.borrow_mut().push((size(), goes_deep(60_000)));
            let nested = with_stack(1 << 20, size).unwrap();
            all.borrow_mut().push((nested, goes_deep(60_000)));
            size()
        });
        assert_eq!((inside.unwrap(), size()), (32 << 20, before));
        all.take()
    };
    let expected = vec![(32 << 20, 60_000), (1 << 20, 60_000)];
    assert_eq!(spawn(deep).join().unwrap(), expected);
    assert_eq!(spawn(move || blocking_here(deep)).join().unwrap(), expected);
    assert_eq!(
        std::thread::spawn(|| with_stack(8 << 20, || goes_deep(15_000)).unwrap()).join().unwrap(),
        15_000
    );
}

#[test]
fn threads_suspend_and_go_on_inside() {
    let _dog = watchdog();
    let body = |number: u64| {
        move || {
            let sum = with_stack(1 << 20, || {
                let mut sum = 0;
                for round in 0..200 {
                    sum += goes_deep(500 + number + round % 7);
                    if round % 3 == 0 { with_stack(256 << 10, yield_now).unwrap() } else { yield_now() }
                }
                park();
                sum
            });
            (sum.unwrap(), current().id())
        }
    };
    let mut threads: Vec<_> = (0..20).map(|number| spawn(body(number))).collect();
    // SAFETY: nothing in it belongs to a kernel thread.
    let migrating = (20..30).map(|number| unsafe { Builder::new().migrating() }.spawn(body(number)).unwrap());
    threads.extend(migrating);
    for (number, thread) in threads.into_iter().enumerate() {
        thread.thread().unpark();
        let id = thread.thread().id();
        let rounds: u64 = (0..200).map(|round| 500 + number as u64 + round % 7).sum();
        assert_eq!(thread.join().unwrap(), (rounds, id));
    }
}

#[test]
fn a_panic_comes_out_of_it_and_may_pause_on_its_way() {
    struct Pauses;
    impl Drop for Pauses {
        fn drop(&mut self) {
            assert!(panicking());
            yield_now();
        }
    }
    let _dog = watchdog();
    let thread = spawn(|| {
        let before = size();
        let caught = catch_unwind(AssertUnwindSafe(|| {
            with_stack(128 << 10, || {
                let _pauses = Pauses;
                panic!("from below");
            })
        }));
        assert!(!panicking());
        (caught.unwrap_err().downcast::<&str>().unwrap(), size() == before)
    });
    spawn(|| (0..100).for_each(|_| yield_now())).join().unwrap();
    assert_eq!(thread.join().unwrap(), (Box::new("from below"), true));
}

#[test]
fn a_stack_that_can_t_be_had_is_an_error() {
    let _dog = watchdog();
    let refused = with_stack(usize::MAX, || unreachable!("there is no such stack"));
    assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::OutOfMemory);
}

#[test]
fn a_dump_shows_what_is_suspended_inside() {
    alone!();
    #[inline(never)]
    fn waits_below() {
        park();
        black_box(());
    }
    let _dog = watchdog();
    let (tell, told) = channel();
    let thread = spawn(move || {
        with_stack(512 << 10, || {
            tell.send(()).unwrap();
            waits_below();
        })
    });
    told.recv().unwrap();
    // It has set the flag a moment before it is suspended.
    while !dump().to_string().contains("waits_below") {
        std::thread::yield_now();
    }
    thread.thread().unpark();
    thread.join().unwrap().unwrap();
}

#[test]
fn an_overflow_inside_is_reported_with_the_size_of_that_stack() {
    let _dog = watchdog();
    if setting("UNDERPASS_TEST_DIES", 0) == 1 {
        let body = || with_stack(96 << 10, || goes_deep(u64::MAX));
        let thread = Builder::new().name("diver").spawn(body).unwrap();
        unreachable!("it ends the process: {:?}", thread.join());
    }
    let output = test_command().env("UNDERPASS_TEST_DIES", "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(6), "{said}");
    assert!(said.contains("'diver'") && said.contains("has overflowed its stack of 96 KiB"), "{said}");
    assert!(said.contains("`thread::with_stack`"), "{said}");
}

#[test]
fn siblings_wait_while_one_blocks_here_and_the_unstarted_go_on() {
    with_processors(&[1], || {
        thread_local!(static HERE: Cell<u32> = const { Cell::new(0) });
        let stage = Arc::new(AtomicU32::new(0));
        let all = spawn(move || {
            let same = stage.clone();
            let sibling = spawn(move || {
                same.store(1, Ordering::SeqCst);
                park();
                same.store(2, Ordering::SeqCst);
                std::thread::current().id()
            });
            while stage.load(Ordering::SeqCst) == 0 {
                yield_now();
            }
            // Not `Send`, like anything that belongs to this kernel thread.
            let told = Rc::new(Cell::new(None));
            let same = told.clone();
            HERE.set(7);
            let own = current().id();
            let wakes = sibling.thread().clone();
            let (tell, hears) = channel();
            blocking_here(move || {
                wakes.unpark();
                let unstarted = spawn(move || {
                    let report = dump().threads.into_iter().find(|thread| thread.id == own);
                    tell.send(report.map(|thread| thread.state)).unwrap();
                });
                same.set(hears.recv().unwrap());
                drop(unstarted);
                assert_eq!(stage.load(Ordering::SeqCst), 1, "the sibling waits");
                assert_eq!(HERE.replace(8), 7);
            });
            assert_eq!((told.get(), HERE.get()), (Some(State::InCall), 8));
            assert_eq!(sibling.join().unwrap(), std::thread::current().id());
        });
        all.join().unwrap();
        assert_eq!(spawn(|| blocking_here(|| blocking(|| 1))).join().unwrap(), 1);
        assert_eq!(blocking_here(|| 2), 2, "on a kernel thread it just runs");
    });
}
