//! Watchers of switches that do what they may not do: none of it is undefined behaviour.

use crate::common::{aborts, with_processors};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;
use underpass_sync::{Mutex, mpmc};
use underpass_threads::{
    Builder, Switches, Thread, ThreadId, current, on_user_thread, park, sleep, spawn, watch_switches,
    yield_now,
};

/// A watcher that runs the same function at each switch of one kind.
struct Does<F> {
    what: F,
    resumes: bool,
}

impl<F: Fn() + Send + Sync> Switches for Does<F> {
    fn resumes(&self, _: ThreadId) {
        if self.resumes {
            (self.what)();
        }
    }
    fn pauses(&self, _: ThreadId) {
        if !self.resumes {
            (self.what)();
        }
    }
}

/// From now on `what` runs before each switch to a thread, or after each switch from one.
fn watch(resumes: bool, what: impl Fn() + Send + Sync + 'static) {
    assert!(watch_switches(Box::leak(Box::new(Does { what, resumes }))), "nobody else watches");
}

/// Threads of all kinds that are switched: they pause, end with and without a handle, and have
/// stacks of their own.
fn switches() {
    let ended = Arc::new(AtomicU32::new(0));
    let threads = (0..60).map(|i| {
        let ended = ended.clone();
        let body = move || {
            (0..5).for_each(|_| yield_now());
            sleep(Duration::from_micros(50));
            ended.fetch_add(1, Ordering::Relaxed);
        };
        let builder = if i % 2 == 0 { Builder::new() } else { Builder::new().stack_size(128 << 10) };
        (i % 3 > 0).then_some(builder.spawn(body).unwrap())
    });
    threads.collect::<Vec<_>>().into_iter().flatten().for_each(|thread| thread.join().unwrap());
    while ended.load(Ordering::Relaxed) < 60 {
        std::thread::yield_now();
    }
}

/// A watcher that yields, wakes and starts threads. No thread may be switched to from within it: it
/// runs on the scheduler's stack.
fn a_watcher_does_what_it_may(resumes: bool) {
    underpass_threads::thread_local! {
        static OWN: std::cell::Cell<u32> = std::cell::Cell::new(0);
    }
    let waits: Arc<StdMutex<Option<Thread>>> = Arc::default();
    let (woken, free) = (waits.clone(), Mutex::new(0));
    let (spawned, ends) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (count, end) = (spawned.clone(), ends.clone());
    watch(resumes, move || {
        assert!(!on_user_thread());
        yield_now();
        // Another activation's watcher may hold it.
        if let Ok(mut free) = free.try_lock() {
            *free += 1;
        }
        OWN.with(|own| own.set(own.get() + 1));
        if let Some(thread) = woken.lock().unwrap().take() {
            thread.unpark();
        }
        if count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < 20).then_some(n + 1)).is_ok() {
            let end = end.clone();
            spawn(move || end.fetch_add(1, Ordering::Relaxed));
        }
    });
    for _ in 0..20 {
        let waits = waits.clone();
        let parked = spawn(move || {
            *waits.lock().unwrap() = Some(current());
            park();
        });
        // The kernel may have stopped the thread before it said who it is, until the last of these.
        while !parked.is_finished() {
            switches();
        }
        parked.join().unwrap();
    }
    while ends.load(Ordering::Relaxed) < 20 {
        std::thread::yield_now();
    }
    assert_eq!(spawned.load(Ordering::Relaxed), 20);
}

#[test]
fn a_watcher_of_resumptions_yields_wakes_and_starts_threads() {
    with_processors(&[1, 2], || a_watcher_does_what_it_may(true));
}

#[test]
fn a_watcher_of_pauses_yields_wakes_and_starts_threads() {
    with_processors(&[1, 2], || a_watcher_does_what_it_may(false));
}

#[test]
fn a_watcher_of_resumptions_that_waits_for_a_mutex_is_refused() {
    let said = aborts(|| waits_for_a_mutex(true));
    assert!(said.contains("waits for a mutex, which is not allowed there"), "{said}");
}

#[test]
fn a_watcher_of_pauses_that_waits_for_a_mutex_is_refused() {
    let said = aborts(|| waits_for_a_mutex(false));
    assert!(said.contains("waits for a mutex, which is not allowed there"), "{said}");
}

/// A mutex that a thread of the same activation holds: the wait would last for ever.
fn waits_for_a_mutex(resumes: bool) {
    let mutex = Arc::new(Mutex::new(()));
    let holds = mutex.clone();
    let (held, is_held) = mpmc::unbounded();
    spawn(move || {
        let _held = holds.lock();
        held.send(()).unwrap();
        park();
    });
    is_held.recv().unwrap();
    watch(resumes, move || drop(mutex.lock()));
    switches();
}

#[test]
fn a_watcher_that_sleeps_is_refused() {
    let said = aborts(|| {
        watch(false, || sleep(Duration::from_millis(1)));
        switches();
    });
    assert!(said.contains("waits for a time, which is not allowed there"), "{said}");
}

fn panics(resumes: bool) {
    watch(resumes, || panic!("an unlucky watcher"));
    switches();
}

#[test]
fn a_watcher_of_resumptions_that_panics_ends_the_process_with_its_message() {
    let said = aborts(|| panics(true));
    assert!(said.contains("an unlucky watcher") && said.contains("has panicked"), "{said}");
}

#[test]
fn a_watcher_of_pauses_that_panics_ends_the_process_with_its_message() {
    let said = aborts(|| panics(false));
    assert!(said.contains("an unlucky watcher") && said.contains("has panicked"), "{said}");
}
