//! A preempted thread may hold a lock that others need.

use crate::fake;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use underpass_harness::alone;

#[test]
fn a_lock_holder_gets_the_processor_of_a_thread_that_blocks_on_the_lock() {
    alone!();
    fake::start(1);
    let lock = Arc::new(Mutex::new(()));
    let tried = Arc::new(AtomicBool::new(false));
    let (same, trying) = (lock.clone(), tried.clone());
    fake::spawn(move || {
        let held = lock.lock().unwrap();
        fake::spawn(move || {
            trying.store(true, Ordering::Release);
            drop(same.lock().unwrap());
        });
        // The other thread tries while this one is preempted. This one goes on while the other is
        // blocked.
        while !tried.load(Ordering::Acquire) {
            spin_loop();
        }
        drop(held);
    });
    fake::rests();
}
