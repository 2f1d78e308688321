//! Ends of threads that misuse the package: leaked sections, self-joins, panics of lines.

use crate::common::{watchdog, with_processors};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use underpass_processor::{
    ActiveLine, AwaitedLine, DonationLine, Line, PolledLine, SleepLine, lines, preempt,
};
use underpass_threads::{
    Builder, ScopedJoinHandle, Switches, ThreadId, no_preempt, park, scope, spawn, watch_switches, yield_now,
};

/// A thread that leaks a section without preemption must not take preemption from the threads that
/// run on its activation afterwards.
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

/// The result of such a thread is dropped, and its scope does not wait for ever.
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
    // The same without a scope: what the thread holds is dropped.
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

/// A watcher of switches is called for the last pause of a thread too.
#[test]
fn watchers_see_each_end() {
    #[derive(Default)]
    struct Count {
        resumed: AtomicU32,
        paused: AtomicU32,
    }
    impl Switches for Count {
        fn resumes(&self, _: ThreadId) {
            self.resumed.fetch_add(1, Ordering::SeqCst);
        }
        fn pauses(&self, _: ThreadId) {
            self.paused.fetch_add(1, Ordering::SeqCst);
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
            // In this order: a thread may resume and pause in between.
            let paused = count.paused.load(Ordering::SeqCst);
            let resumed = count.resumed.load(Ordering::SeqCst);
            assert!(paused <= resumed);
            if paused == 100 {
                break;
            }
            std::thread::yield_now();
        }
    });
}

/// A line whose calls panic where no server catches it.
#[derive(Default)]
struct Faulty {
    calls: AtomicU32,
    word: AtomicU32,
}

impl PolledLine for Faulty {
    fn poll(&self) -> bool {
        false
    }

    fn pending(&self) -> bool {
        self.calls.load(Ordering::Acquire) > 0
    }

    fn serve(&self, _: u64) -> bool {
        let less = |calls: u32| calls.checked_sub(1);
        match self.calls.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less) {
            Ok(_) => panic!("a line fails"),
            Err(_) => false,
        }
    }
}

impl SleepLine for Faulty {
    fn park(&self, _: bool) -> Option<u32> {
        None
    }

    fn spare(&self) -> Option<u32> {
        None
    }

    fn quiet(&self) -> bool {
        !self.pending()
    }

    fn word(&self) -> &AtomicU32 {
        &self.word
    }

    fn look(&self) {}

    fn set_unpolled(&self) {}
}

impl ActiveLine for Faulty {}

impl AwaitedLine for Faulty {
    fn wake_spare(&self) {}
}

impl DonationLine for Faulty {}

impl Line for Faulty {
    fn elsewhere(&self) -> bool {
        false
    }

    fn shares(&self) -> bool {
        false
    }
}

/// After the panic of a line, the activation still takes calls, and the next thread with the
/// dispatcher's control block is not taken for the dispatcher.
#[test]
fn an_activation_takes_calls_after_a_line_has_panicked() {
    with_processors(&[1], || {
        let line = Arc::new(Faulty::default());
        lines::add(line.clone());
        // It keeps the activation from idling, where another dispatcher is started in any case.
        let done = Arc::new(AtomicU32::new(0));
        let seen = done.clone();
        let busy = spawn(move || {
            while seen.load(Ordering::Relaxed) == 0 {
                yield_now();
            }
        });
        for _ in 0..5 {
            line.calls.store(1, Ordering::Release);
            while line.pending() {
                std::thread::yield_now();
            }
        }
        done.store(1, Ordering::Relaxed);
        busy.join().unwrap();
    });
}
