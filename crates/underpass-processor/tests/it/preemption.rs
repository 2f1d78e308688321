//! Threads that compute don't keep waiting threads from starting.

use crate::fake;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use underpass_harness::alone;
use underpass_processor::metrics;

#[test]
fn unstarted_work_runs_though_all_processors_compute() {
    alone!();
    fake::start(1);
    let done = Arc::new(AtomicBool::new(false));
    let seen = done.clone();
    fake::spawn(move || {
        let flag = done.clone();
        fake::spawn(move || flag.store(true, Ordering::Release));
        while !done.load(Ordering::Acquire) {
            spin_loop();
        }
    });
    fake::until(|| seen.load(Ordering::Acquire));
    fake::rests();
    assert!(metrics().preemptions() > 0);
    assert!(fake::COMPUTING.load(Ordering::Relaxed) > 0);

    // Each computes until all have begun, so they have to take turns.
    let begun = Arc::new(AtomicU32::new(0));
    for _ in 0..5 {
        let begun = begun.clone();
        fake::spawn(move || {
            begun.fetch_add(1, Ordering::AcqRel);
            while begun.load(Ordering::Acquire) < 5 {
                spin_loop();
            }
        });
    }
    fake::rests();
}
