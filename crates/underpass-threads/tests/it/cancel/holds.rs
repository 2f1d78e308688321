//! Waits that are not interrupted: they end only when the holder releases what they wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use underpass_sync::{Barrier, Mutex, Once, RwLock};
use underpass_threads::{scope, spawn, yield_now};

/// A wait, and what ends it.
pub type Held = (Box<dyn FnOnce() + Send>, Box<dyn FnOnce()>);

/// A name, and how to make one.
pub type Hold = (&'static str, fn() -> Held);

/// All of them.
pub const HOLDS: &[Hold] = &[
    ("Mutex::lock", || {
        let mutex: &'static Mutex<()> = Box::leak(Box::default());
        let guard = mutex.lock().unwrap();
        (Box::new(|| drop(mutex.lock().unwrap())), Box::new(move || drop(guard)))
    }),
    ("RwLock::read", || {
        let lock: &'static RwLock<()> = Box::leak(Box::default());
        let guard = lock.write().unwrap();
        (Box::new(|| drop(lock.read().unwrap())), Box::new(move || drop(guard)))
    }),
    ("RwLock::write", || {
        let lock: &'static RwLock<()> = Box::leak(Box::default());
        let guard = lock.read().unwrap();
        (Box::new(|| drop(lock.write().unwrap())), Box::new(move || drop(guard)))
    }),
    ("JoinHandle::join", || {
        let (stop, thread) = until_stopped();
        (Box::new(|| thread.join().unwrap()), Box::new(move || stop.store(true, Ordering::Release)))
    }),
    ("scope", || {
        let stop = Arc::new(AtomicBool::new(false));
        let inside = stop.clone();
        let wait = move || {
            scope(|scope| {
                scope.spawn(|| yield_until(&inside));
            });
        };
        (Box::new(wait), Box::new(move || stop.store(true, Ordering::Release)))
    }),
    ("Barrier::wait", || {
        let barrier = Arc::new(Barrier::new(2));
        let other = barrier.clone();
        (
            Box::new(move || {
                other.wait();
            }),
            Box::new(move || {
                barrier.wait();
            }),
        )
    }),
    ("Once::call_once", || {
        let once: &'static Once = Box::leak(Box::new(Once::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (inside, begun) = (stop.clone(), Arc::new(AtomicBool::new(false)));
        let tell = begun.clone();
        drop(spawn(move || {
            once.call_once(|| {
                tell.store(true, Ordering::Release);
                yield_until(&inside);
            });
        }));
        yield_until(&begun);
        (Box::new(|| once.call_once(|| ())), Box::new(move || stop.store(true, Ordering::Release)))
    }),
];

fn yield_until(stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        yield_now();
    }
}

fn until_stopped() -> (Arc<AtomicBool>, underpass_threads::JoinHandle<()>) {
    let stop = Arc::new(AtomicBool::new(false));
    let inside = stop.clone();
    (stop, spawn(move || yield_until(&inside)))
}
