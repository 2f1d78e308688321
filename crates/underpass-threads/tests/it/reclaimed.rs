//! Stacks that nobody has used for a while go back to the system, without being asked for.

use crate::common::watchdog;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use underpass_harness::alone;
use underpass_processor::Pool;
use underpass_threads::{e_stacks, park, spawn, yield_now};

#[test]
fn after_a_burst_of_threads_few_stacks_are_left() {
    alone!();
    const BURST: usize = 600;
    let _watchdog = watchdog();
    let parked = Arc::new(AtomicUsize::new(0));
    let wait = |parked: Arc<AtomicUsize>| {
        move || {
            parked.fetch_add(1, Ordering::SeqCst);
            park();
        }
    };
    let burst: Vec<_> = (0..BURST).map(|_| spawn(wait(parked.clone()))).collect();
    while parked.load(Ordering::SeqCst) < BURST {
        yield_now();
    }
    let before = e_stacks();
    assert!(before.exist >= BURST as u64 && before.reclaimed == 0, "{before:?}");
    burst.iter().for_each(|thread| thread.thread().unpark());
    burst.into_iter().for_each(|thread| thread.join().unwrap());
    // Each activation keeps up to 64, and all of them together another 64.
    let kept = || 64 * (Pool::get().unwrap().activation_counts().activations as u64 + 1);
    while e_stacks().exist > kept() {
        // Nothing runs meanwhile: the last activation to sleep wakes up for this.
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let after = e_stacks();
    assert!(after.reclaimed > 0 && after.associated == 0, "{after:?}");
}
