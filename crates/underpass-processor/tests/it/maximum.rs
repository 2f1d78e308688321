//! The maximum may change while threads run.

use crate::fake;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use underpass_harness::alone;
use underpass_processor::Pool;

#[test]
fn as_many_activations_run_as_the_maximum_allows() {
    alone!();
    let pool = fake::start(2);
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..4 {
        let stop = stop.clone();
        fake::spawn(move || {
            while !stop.load(Ordering::Acquire) {
                spin_loop();
            }
        });
    }
    // All four start, and take turns.
    fake::settles(|counts| counts.running == 2 && counts.ready + counts.preempted == 2);
    for maximum in [1, 3, 2, 4, 1] {
        assert!(!Pool::configure(maximum));
        assert_eq!(pool.maximum(), maximum as usize);
        fake::settles(|counts| counts.running == maximum as usize);
    }
    stop.store(true, Ordering::Release);
    fake::rests();
    assert_eq!(pool.activation_counts().listeners(), 1);
}
