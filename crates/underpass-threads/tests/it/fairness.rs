//! On one processor, threads that yield all the time, or have activations of their own, never hold
//! up unstarted threads, wherever those wait.

use crate::common::{Watchdog, watchdog};
use std::io::{Read, Write, pipe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use underpass_harness::alone;
use underpass_processor::{Pool, metrics};
use underpass_threads::{Builder, JoinHandle, blocking, park, spawn, yield_now};

fn one_processor() -> Watchdog {
    Pool::configure(1);
    watchdog()
}

/// Gives way again and again until told to end.
fn yields_until(end: &Arc<AtomicBool>) -> JoinHandle<()> {
    let end = end.clone();
    spawn(move || {
        while !end.load(Ordering::Relaxed) {
            yield_now();
        }
    })
}

#[test]
fn a_thread_in_the_ring_of_an_activation_that_blocks_starts() {
    alone!();
    let _dog = one_processor();
    let first = spawn(|| {
        let (mut reader, mut writer) = pipe().unwrap();
        let end = Arc::new(AtomicBool::new(false));
        // Both wait in the ring of this activation, which blocks in the kernel before they start.
        let busy = yields_until(&end);
        let last = spawn(move || writer.write_all(&[1]).unwrap());
        blocking(move || reader.read_exact(&mut [0]).unwrap());
        end.store(true, Ordering::Relaxed);
        busy.join().unwrap();
        last.join().unwrap();
    });
    first.join().unwrap();
}

#[test]
fn a_dedicated_thread_gets_an_activation() {
    alone!();
    let _dog = one_processor();
    let end = Arc::new(AtomicBool::new(false));
    let busy = [yields_until(&end), yields_until(&end)];
    let dedicated = Builder::new().dedicated().spawn(|| 7).unwrap();
    assert_eq!(dedicated.join().unwrap(), 7);
    end.store(true, Ordering::Relaxed);
    busy.into_iter().for_each(|thread| thread.join().unwrap());
}

/// In some of these rounds the monitor may have helped, but not in each.
const ROUNDS: u64 = 200;

#[test]
fn an_idle_activation_leaves_its_processor_to_threads_that_it_would_not_take() {
    alone!();
    let _dog = one_processor();
    // It lives on an activation that has nothing else to do, and that may not take a dedicated
    // thread.
    let parked = spawn(park);
    let before = metrics().preemptions();
    for n in 0..ROUNDS {
        let other = spawn(move || Builder::new().dedicated().spawn(move || n).unwrap().join().unwrap());
        assert_eq!(other.join().unwrap(), n);
    }
    assert!(metrics().preemptions() - before < ROUNDS / 2, "nobody had to be asked to give way");
    parked.thread().unpark();
    parked.join().unwrap();
}

#[test]
fn children_of_a_dedicated_thread_start() {
    alone!();
    let _dog = one_processor();
    let before = metrics().preemptions();
    let sum = || (0..ROUNDS).map(|n| spawn(move || n).join().unwrap()).sum::<u64>();
    let parent = Builder::new().dedicated().spawn(sum).unwrap();
    assert_eq!(parent.join().unwrap(), ROUNDS * (ROUNDS - 1) / 2);
    assert!(metrics().preemptions() - before < ROUNDS / 2, "nobody had to be asked to give way");
}
