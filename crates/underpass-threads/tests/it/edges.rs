//! Rare combinations: thread-locals of kernel threads and in destructors of results, threads that
//! wake themselves, blocking calls inside of blocking calls. Each has been wrong once.

use crate::common::with_processors;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use underpass_threads::{
    Builder, Control, Wait, Woken, blocking, checkpoint, me, on_user_thread, sleep, spawn, suspend, yield_now,
};

underpass_threads::thread_local! {
    static KEPT: RefCell<Option<Dropped>> = RefCell::new(None);
    static NUMBER: Cell<u32> = Cell::new(0);
}

/// Counts its drops.
struct Dropped(Arc<AtomicU32>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_kernel_thread_s_variables_end_with_it() {
    with_processors(&[1], || {
        let drops = Arc::new(AtomicU32::new(0));
        let kept = Dropped(drops.clone());
        let kernel_thread = std::thread::spawn(move || {
            KEPT.with(|place| *place.borrow_mut() = Some(kept));
            NUMBER.with(|number| number.set(7));
        });
        kernel_thread.join().unwrap();
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        // Threads of either kind that get its control block begin with variables of their own.
        for _ in 0..200 {
            assert_eq!(std::thread::spawn(|| NUMBER.with(Cell::get)).join().unwrap(), 0);
            assert_eq!(spawn(|| NUMBER.with(Cell::get)).join().unwrap(), 0);
        }
    });
}

#[test]
fn what_a_result_s_destructor_makes_is_no_other_thread_s() {
    struct Touches;
    impl Drop for Touches {
        fn drop(&mut self) {
            // It may be gone already.
            let _ = NUMBER.try_with(|number| number.set(9));
        }
    }
    with_processors(&[1], || {
        let seen = spawn(|| {
            for _ in 0..10 {
                drop(spawn(|| Touches));
                yield_now();
            }
            (0..200).filter(|_| spawn(|| NUMBER.with(Cell::get)).join().unwrap() != 0).count()
        });
        assert_eq!(seen.join().unwrap(), 0);
    });
}

#[test]
fn a_variable_may_suspend_while_it_is_made() {
    underpass_threads::thread_local! {
        static SLOW: u32 = { yield_now(); 5 };
    }
    with_processors(&[1, 2], || {
        let threads: Vec<_> = (0..20).map(|_| spawn(|| SLOW.with(|slow| *slow))).collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() == 5));
    });
}

#[test]
fn a_wake_may_come_before_its_suspension_from_the_thread_itself() {
    struct Nothing;
    impl Wait for Nothing {
        fn abandon(&self, _: &'static Control) -> bool {
            false
        }
    }
    let wake_oneself = || {
        for _ in 0..10 {
            // SAFETY: for the suspension that follows.
            unsafe { me().wake() };
            // SAFETY: its wake-up came first, and `Nothing` is never abandoned.
            let woken = unsafe { suspend(me(), &Nothing, None, false) };
            assert_eq!(woken, Woken::Woken);
        }
    };
    with_processors(&[1], || {
        for _ in 0..10 {
            let with_a_sibling = spawn(move || {
                let sibling = spawn(|| (0..5).for_each(|_| yield_now()));
                wake_oneself();
                sibling.join().unwrap();
            });
            with_a_sibling.join().unwrap();
            spawn(wake_oneself).join().unwrap();
            std::thread::spawn(wake_oneself).join().unwrap();
        }
    });
}

#[test]
fn in_a_blocking_call_everything_works_as_on_a_kernel_thread() {
    let everything = || {
        assert!(!on_user_thread());
        let seven = spawn(|| 7).join().unwrap();
        sleep(Duration::from_micros(100));
        yield_now();
        checkpoint();
        seven + blocking(|| 1)
    };
    with_processors(&[1, 2], || {
        // First alone on its activation, then with a sibling that has started there.
        assert_eq!(spawn(move || blocking(everything)).join().unwrap(), 8);
        let beside = spawn(move || {
            let sibling = spawn(|| (0..3).for_each(|_| yield_now()));
            yield_now();
            let result = blocking(everything);
            assert!(on_user_thread());
            sibling.join().unwrap();
            result
        });
        assert_eq!(beside.join().unwrap(), 8);
    });
}

#[test]
fn threads_that_want_activations_of_their_own_get_them_from_user_level_threads_too() {
    with_processors(&[1, 2], || {
        let sum = spawn(|| {
            let dedicated = |result| Builder::new().dedicated().spawn(move || result).unwrap();
            let (one, two) = (dedicated(1), dedicated(2));
            one.join().unwrap() + two.join().unwrap()
        });
        assert_eq!(sum.join().unwrap(), 3);
    });
}
