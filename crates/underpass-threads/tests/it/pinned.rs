//! What pinning promises: a thread that has started stays on its kernel thread, whatever it calls.
//! A migrating thread need not.

use crate::common::with_processors;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use underpass_threads::{
    Builder, blocking, checkpoint, no_preempt, park, park_timeout, scope, sleep, spawn, yield_now,
};

thread_local! {
    /// Data that threads of one activation share, and no others.
    static SHARED: RefCell<Vec<Rc<Cell<u32>>>> = const { RefCell::new(Vec::new()) };
}

/// The kernel's number of the calling kernel thread.
fn kernel_thread() -> u32 {
    let link = std::fs::read_link("/proc/thread-self").expect("/proc is mounted");
    link.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok()).expect("PID/task/TID")
}

/// Everything that may suspend a thread, one after another.
fn suspend_in_every_way(round: u32) {
    yield_now();
    checkpoint();
    sleep(Duration::from_micros(u64::from(round % 50)));
    park_timeout(Duration::from_micros(10));
    blocking(|| std::thread::sleep(Duration::from_micros(20)));
    spawn(|| ()).join().unwrap();
    scope(|scope| {
        scope.spawn(yield_now);
    });
    {
        let _brief = no_preempt();
        yield_now();
    }
    let me = underpass_threads::current();
    spawn(move || me.unpark()).join().unwrap();
    park();
}

#[test]
fn a_started_thread_keeps_its_kernel_thread_whatever_it_calls() {
    with_processors(&[1, 2, 4], || {
        let threads: Vec<_> = (0..24)
            .map(|number| {
                spawn(move || {
                    let home = (kernel_thread(), std::thread::current().id());
                    for round in 0..20 {
                        suspend_in_every_way(number + round);
                        assert_eq!((kernel_thread(), std::thread::current().id()), home);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn an_rc_in_a_thread_local_is_whole_across_blocking_calls() {
    with_processors(&[1, 2, 4], || {
        let adds = Arc::new(AtomicU32::new(0));
        let threads: Vec<_> = (0..32)
            .map(|_| {
                let adds = adds.clone();
                spawn(move || {
                    let mine = Rc::new(Cell::new(0));
                    SHARED.with_borrow_mut(|shared| shared.push(mine.clone()));
                    for round in 0..20 {
                        // A clone of its neighbour's, taken before and dropped after a pause. No
                        // count is atomic.
                        let neighbour = SHARED.with_borrow(|shared| shared[round % shared.len()].clone());
                        neighbour.set(neighbour.get() + 1);
                        adds.fetch_add(1, Ordering::Relaxed);
                        suspend_in_every_way(round as u32);
                        drop(neighbour);
                        assert!(SHARED.with_borrow(|shared| shared.iter().any(|rc| Rc::ptr_eq(rc, &mine))));
                    }
                    let sum = mine.get();
                    SHARED.with_borrow_mut(|shared| shared.retain(|rc| !Rc::ptr_eq(rc, &mine)));
                    // Other threads that have just taken a clone may still add to it, and count it
                    // as their own.
                    (sum, Rc::strong_count(&mine))
                })
            })
            .collect();
        for thread in threads {
            let (_, count) = thread.join().unwrap();
            assert!((1..=32).contains(&count), "{count} owners");
        }
        assert_eq!(adds.load(Ordering::Relaxed), 32 * 20);
    });
}

#[test]
fn a_borrow_of_a_thread_local_outlives_a_pause() {
    with_processors(&[1, 2], || {
        thread_local!(static OWN: Cell<u64> = const { Cell::new(0) });
        let threads: Vec<_> = (0..16)
            .map(|_| {
                spawn(|| {
                    OWN.with(|own| {
                        for _ in 0..50 {
                            let before = std::ptr::from_ref(own);
                            yield_now();
                            blocking(|| ());
                            own.set(own.get() + 1);
                            assert!(OWN.with(|again| std::ptr::eq(again, before)));
                        }
                    });
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_migrating_thread_goes_on_elsewhere_while_its_kernel_thread_is_busy() {
    /// The kernel threads on which it began and ended. 0 before.
    #[derive(Default)]
    struct Way {
        begun: AtomicU32,
        ended: AtomicU32,
    }

    /// Makes a migrating thread block on this activation, and go on while this one is kept busy.
    fn move_one() -> bool {
        let way = Arc::new(Way::default());
        let inside = way.clone();
        // SAFETY: across its pause it holds a reference to shared atomics.
        let builder = unsafe { Builder::new().migrating() };
        let thread = builder.spawn(move || {
            inside.begun.store(kernel_thread(), Ordering::Relaxed);
            park();
            inside.ended.store(kernel_thread(), Ordering::Relaxed);
        });
        let thread = thread.unwrap();
        while way.begun.load(Ordering::Relaxed) == 0 {
            yield_now();
        }
        // If it began here, it has paused by now, since this code runs here.
        let here = kernel_thread();
        let began_here = way.begun.load(Ordering::Relaxed) == here;
        thread.thread().unpark();
        while began_here && way.ended.load(Ordering::Relaxed) == 0 {
            std::hint::spin_loop();
        }
        thread.join().unwrap();
        if began_here {
            assert_ne!(way.ended.load(Ordering::Relaxed), here);
        }
        began_here
    }

    with_processors(&[2, 4], || {
        // An idle activation may be faster to start it, so not each thread moves. The watchdog
        // bounds the attempts.
        let moves = spawn(|| (0..).filter(|_| move_one()).take(20).count());
        assert_eq!(moves.join().unwrap(), 20);
    });
}

#[test]
fn what_belongs_to_a_user_level_thread_goes_with_it() {
    underpass_threads::thread_local! {
        static COUNT: Cell<u32> = Cell::new(0);
    }
    with_processors(&[2], || {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                // SAFETY: it holds nothing that belongs to its kernel thread.
                unsafe { Builder::new().migrating() }.spawn(|| {
                    for round in 0..200 {
                        assert_eq!(COUNT.with(Cell::get), round);
                        COUNT.with(|count| count.set(round + 1));
                        yield_now();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.unwrap().join().unwrap());
    });
}
