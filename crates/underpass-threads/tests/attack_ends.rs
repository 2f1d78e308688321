//! The ends of threads, where something is amiss.

mod common;

use common::{watchdog, with_processors};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use underpass_processor::preempt;
use underpass_threads::{
    Builder, ScopedJoinHandle, Switches, ThreadId, no_preempt, park, scope, spawn, watch_switches, yield_now,
};

/// A thread that forgot to allow preemption again took it from all that ran on its activation afterwards.
#[test]
fn a_forgotten_section_ends_with_its_thread() {
    with_processors(&[1], || {
        for _ in 0..3 {
            let forgets = || std::mem::forget((no_preempt(), no_preempt()));
            spawn(forgets).join().unwrap();
            drop(spawn(forgets));
            assert!(!spawn(preempt::disabled).join().unwrap());
            spawn(yield_now).join().unwrap();
            assert!(!spawn(preempt::disabled).join().unwrap());
        }
    });
}

/// Its result was never dropped, and a scope waited for that for ever.
#[test]
fn a_thread_that_joins_itself_panics_and_ends() {
    let _dog = watchdog();
    let ended = catch_unwind(AssertUnwindSafe(|| {
        scope(|scope| {
            let place: Arc<Mutex<Option<ScopedJoinHandle<'_, ()>>>> = Arc::default();
            let inside = place.clone();
            let thread = scope.spawn(move || {
                park();
                let own = inside.lock().unwrap().take();
                own.unwrap().join().unwrap();
            });
            let also = thread.thread().clone();
            *place.lock().unwrap() = Some(thread);
            also.unpark();
        });
    }));
    assert!(ended.is_err());
    // Likewise one without a scope: what it has is dropped.
    let kept = Arc::new(());
    let (inside, place) = (kept.clone(), Arc::new(Mutex::new(None)));
    let shared = place.clone();
    let thread = spawn(move || {
        let _kept = inside;
        park();
        let own: underpass_threads::JoinHandle<()> = shared.lock().unwrap().take().unwrap();
        own.join().unwrap();
    });
    let also = thread.thread().clone();
    *place.lock().unwrap() = Some(thread);
    also.unpark();
    while Arc::strong_count(&kept) > 1 {
        std::thread::yield_now();
    }
}

/// Who watches the switches was never told of the last pause of a thread.
#[test]
fn watchers_are_told_of_each_end() {
    #[derive(Default)]
    struct Count {
        resumed: AtomicU32,
        paused: AtomicU32,
    }
    impl Switches for Count {
        fn resumes(&self, _: ThreadId) {
            self.resumed.fetch_add(1, Ordering::Relaxed);
        }
        fn pauses(&self, _: ThreadId) {
            self.paused.fetch_add(1, Ordering::Relaxed);
        }
    }
    with_processors(&[1, 2], || {
        let count: &Count = Box::leak(Box::default());
        assert!(watch_switches(count));
        for i in 0..50 {
            let builder = if i % 2 == 0 { Builder::new() } else { Builder::new().stack_size(128 << 10) };
            let thread = builder.spawn(yield_now).unwrap();
            if i % 3 > 0 {
                thread.join().unwrap();
            }
        }
        loop {
            let (resumed, paused) =
                (count.resumed.load(Ordering::Relaxed), count.paused.load(Ordering::Relaxed));
            assert!(paused <= resumed);
            if paused == 100 {
                break;
            }
            std::thread::yield_now();
        }
    });
}
